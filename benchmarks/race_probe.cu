// What racecheck says of PTX's own producer and consumer: bar.arrive by one warp, bar.sync by the other.
#include <cstdio>
__global__ void probe(int* out) {
  __shared__ int value[32];
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) { value[lane] = lane; asm volatile("bar.arrive 1, 64;" ::: "memory"); }
  else { asm volatile("bar.sync 1, 64;" ::: "memory"); out[lane] = value[31 - lane]; }
}
int main() { int* out; cudaMalloc(&out, 128); probe<<<1, 64>>>(out); std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize())); }
