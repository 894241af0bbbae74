// What racecheck says of PTX's own pattern of producer and consumer (bar.arrive on one side, bar.sync on the other), first
// once, then in a ring: the producer fills two slots in turn, the consumers hand each back, as the kernels' warps do.
#include <cstdio>

__device__ void arrive(int id, int threads) { __syncwarp(); asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ void await(int id, int threads) { __syncwarp(); asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

template <int CONSUMERS, int ROUNDS> __global__ void probe(int* out) {
  __shared__ int value[2][32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, all = 32 * (CONSUMERS + 1);
  for (int k = 0; k < ROUNDS; k++) {
    if (warp == CONSUMERS) {
      if (k >= 2) await(3 + (k & 1), all);  // the slot is free
      value[k & 1][lane] = lane + k;
      arrive(1 + (k & 1), all);             // the slot is full
    } else {
      await(1 + (k & 1), all);
      out[threadIdx.x] += value[k & 1][31 - lane];
      if (k + 2 < ROUNDS) arrive(3 + (k & 1), all);
    }
  }
}

// The same beside warps that take no part in the barrier, or meet the consumers at another one.
template <int OTHERS> __global__ void beside(int* out) {
  __shared__ int value[32], seen[32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) { value[lane] = lane; arrive(1, 64); }
  else if (warp == 1) {
    if (OTHERS == 2) { seen[lane] = lane; arrive(2, 64); }
    await(1, 64);
    out[lane] = value[31 - lane];
  } else if (OTHERS == 2) { await(2, 64); out[32 + lane] = seen[31 - lane]; }
}

// The ring of `probe` with a number of rounds that the compiler does not know, so that barriers are named by registers, as in
// the kernels.
template <int CONSUMERS> __global__ void in_registers(int* out, int rounds) {
  __shared__ int value[2][32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, all = 32 * (CONSUMERS + 1);
#pragma unroll 1
  for (int k = 0; k < rounds; k++) {
    if (warp == CONSUMERS) {
      if (k >= 2) await(3 + (k & 1), all);
      value[k & 1][lane] = lane + k;
      arrive(1 + (k & 1), all);
    } else {
      await(1 + (k & 1), all);
      out[threadIdx.x] += value[k & 1][31 - lane];
      if (k + 2 < rounds) arrive(3 + (k & 1), all);
    }
  }
}

int main(int argc, char**) {
  int* out;
  cudaMalloc(&out, 4096);
  if (argc == 1) probe<1, 1><<<1, 64>>>(out);
  else if (argc == 2) probe<4, 1><<<1, 160>>>(out);
  else if (argc == 3) probe<1, 8><<<1, 64>>>(out);
  else if (argc == 5) beside<1><<<1, 96>>>(out);
  else if (argc == 6) beside<2><<<1, 96>>>(out);
  else if (argc == 7) in_registers<1><<<1, 64>>>(out, 8);
  else if (argc == 8) in_registers<4><<<1, 160>>>(out, 8);
  else probe<4, 8><<<1, 160>>>(out);
  std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
