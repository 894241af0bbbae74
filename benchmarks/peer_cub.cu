// CUB's DeviceScan on 1 GiB, beside a device copy of the same bytes: one line "dtype milliseconds copy_milliseconds" each.
#include <cub/cub.cuh>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t e) { if (e != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(e)); std::exit(1); } }

template <class F> float median(F f) {
  cudaEvent_t a, b; check(cudaEventCreate(&a)); check(cudaEventCreate(&b));
  std::vector<float> times;
  for (int i = 0; i < 18; i++) {
    check(cudaEventRecord(a)); f(); check(cudaEventRecord(b)); check(cudaEventSynchronize(b));
    float ms; check(cudaEventElapsedTime(&ms, a, b));
    if (i >= 3) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

__global__ void fill(uint32_t* p, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) p[i] = i * 2654435761u;
}

template <class T> void run(const char* name, void* in, void* out, void* work, size_t bytes) {
  int64_t n = bytes / sizeof(T);
  size_t needed = 0;
  check(cub::DeviceScan::InclusiveSum(nullptr, needed, (T*)in, (T*)out, n));
  float copy = median([&] { check(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice)); });
  float scan = median([&] { check(cub::DeviceScan::InclusiveSum(work, needed, (T*)in, (T*)out, n)); });
  std::printf("%s %.5f %.5f\n", name, scan, copy);
}

int main() {
  size_t bytes = size_t(1) << 30;
  void *in, *out, *work;
  check(cudaMalloc(&in, bytes)); check(cudaMalloc(&out, bytes)); check(cudaMalloc(&work, size_t(1) << 28));
  fill<<<2048, 256>>>((uint32_t*)in, bytes / 4);
  run<float>("f4", in, out, work, bytes); run<int32_t>("i4", in, out, work, bytes); run<double>("f8", in, out, work, bytes);
  run<int64_t>("i8", in, out, work, bytes); run<int16_t>("i2", in, out, work, bytes); run<int8_t>("i1", in, out, work, bytes);
}
