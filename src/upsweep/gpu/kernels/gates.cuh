// The formulas of gated layers. `make` makes of an item its decay a and its input b, of h = a h + b. `back` makes the gradients
// of the item and of the parameter, from the state before and the gradient s of the state.
#include "maths.cuh"

// 1 - exp(x), given exp(x), for x <= 0: near zero by the series of exp, where the difference would lose its digits.
__device__ __forceinline__ f32 one_less(f32 x, f32 e) {
  f32 s = 1.0f / 5040;
#pragma unroll
  for (int k = 6; k >= 1; k--) {
    constexpr f32 terms[] = {0, 1, 1.0f / 2, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720};
    s = __fmaf_rn(s, x, terms[k]);
  }
  return x > -0.25f ? -x * s : 1 - e;
}
__device__ __forceinline__ f64 one_less(f64 x, f64) { return -expm1(x); }

// A parameter that the formulas take as it is given.
struct AsGiven {
  template <class R> static __device__ __forceinline__ R taken(R given) { return given; }
  template <class R> static __device__ __forceinline__ R gradient(R, R dtaken) { return dtaken; }
};

// De et al., "Griffin" (2024), equations 1 to 4: x, input gate, recurrence gate; the parameter is Lambda, taken as the rate
// -c softplus(Lambda).
struct RgLru {
  static constexpr int ARRAYS = 3;
  static constexpr bool PARAMETER = true;
  template <class R> static __device__ __forceinline__ R taken(R given) { return -8 * softplus(given); }
  template <class R> static __device__ __forceinline__ R gradient(R given, R dtaken) { return -8 * sigmoid(given) * dtaken; }
  template <class R> static __device__ __forceinline__ void make(const R (&x)[3], R rate, R& a, R& b) {
    R decay = rate * sigmoid(x[2]);
    a = exp_of(decay);
    b = root(one_less(2 * decay, a * a)) * (sigmoid(x[1]) * x[0]);
  }
  template <class R> static __device__ __forceinline__ void back(const R (&x)[3], R rate, R before, R s, R (&dx)[3], R& drate) {
    R in = sigmoid(x[1]), open = sigmoid(x[2]), decay = rate * open, a = exp_of(decay), square = a * a;
    R scale = root(one_less(2 * decay, square));
    R ddecay = s * (a * before - (scale > 0 ? square * inverse(scale) : R(0)) * in * x[0]);
    R into = s * scale;
    dx[0] = into * in;
    dx[1] = into * x[0] * in * (1 - in);
    dx[2] = ddecay * decay * (1 - open);
    drate += ddecay * open;
  }
};

// Feng et al., "Were RNNs all we needed?" (2024), section 3.1: x, gate.
struct MinGru : AsGiven {
  static constexpr int ARRAYS = 2;
  static constexpr bool PARAMETER = false;
  template <class R> static __device__ __forceinline__ void make(const R (&x)[2], R, R& a, R& b) {
    R open;
    both_sigmoids(x[1], open, a);
    b = open * x[0];
  }
  template <class R> static __device__ __forceinline__ void back(const R (&x)[2], R, R before, R s, R (&dx)[2], R&) {
    R open, shut;
    both_sigmoids(x[1], open, shut);
    dx[0] = s * open;
    dx[1] = dx[0] * (x[0] - before) * shut;
  }
};

// Qin et al., "Hierarchically gated recurrent neural network" (2023), equation 5: x, forget gate; the parameter is the gate's
// least value.
struct Hgrn : AsGiven {
  static constexpr int ARRAYS = 2;
  static constexpr bool PARAMETER = true;
  template <class R> static __device__ __forceinline__ void make(const R (&x)[2], R least, R& a, R& b) {
    R shut = (1 - least) * sigmoid(-x[1]);
    a = 1 - shut;
    b = shut * x[0];
  }
  template <class R> static __device__ __forceinline__ void back(const R (&x)[2], R least, R before, R s, R (&dx)[2], R& dleast) {
    R open, shut, df = s * (before - x[0]);
    both_sigmoids(x[1], open, shut);
    R part = (1 - least) * shut;
    dx[0] = s * part;
    dx[1] = df * part * open;
    dleast += df * shut;
  }
};
