// What activations are, for the row models of activation and of what codes its result; x is a double or a Number.
// Stands behind row_numbers.cuh; it has no include guard and includes nothing.
namespace ridge::ops::activation {

// f and its derivative at x, by the formulas of activation/contract.h.
struct Definition {
  rows::i64 function;  // ActivationFunction
  double alpha, limit;

  enum Name : rows::i64 { kSilu, kGelu, kGeluTanh, kRelu, kRelu2, kClampedSilu };
  static RIDGE_ROWS double value_of(double x) { return x; }
  static RIDGE_ROWS double value_of(const rows::Number& x) { return x.value; }

  // A limit cuts off above alone. NaN stays.
  template <class T>
  RIDGE_ROWS T cut(const T& x) const {
    return function == kClampedSilu && value_of(x) > limit ? T(limit) : x;
  }
  // The argument of the sigmoid of gelu_tanh, which is that of tanh doubled; and its derivative.
  template <class T>
  static RIDGE_ROWS T inner(const T& x) {
    return T(1.5957691216057308) * (x + T(0.044715) * x * x * x);
  }
  template <class T>
  static RIDGE_ROWS T inner_slope(const T& x) {
    return T(1.5957691216057308) * (T(1.0) + T(3 * 0.044715) * x * x);
  }
  template <class T>
  RIDGE_ROWS T value(const T& given) const {
    const T x = cut(given);
    switch (function) {
      case kSilu: return x * rows::sigmoid(x);
      case kGelu: return x * rows::normal(x);
      case kGeluTanh: return x * rows::sigmoid(inner(x));
      case kRelu: return value_of(x) <= 0 ? T(0.0) : x;
      case kRelu2: return value_of(x) <= 0 ? T(0.0) : x * x;
      default: return x * rows::sigmoid(T(alpha) * x);
    }
  }
  template <class T>
  RIDGE_ROWS T slope(const T& given) const {
    const T x = cut(given);
    switch (function) {
      case kSilu: {
        const T s = rows::sigmoid(x);
        return s * (T(1.0) + x * (T(1.0) - s));
      }
      case kGelu: return rows::normal(x) + x * rows::normal_density(x);
      case kGeluTanh: {
        const T s = rows::sigmoid(inner(x));
        return s + x * s * (T(1.0) - s) * inner_slope(x);
      }
      case kRelu: return T(value_of(x) <= 0 ? 0.0 : 1.0);
      case kRelu2: return value_of(x) <= 0 ? T(0.0) : T(2.0) * x;
      default: {
        if (value_of(given) > limit) return T(0.0);
        const T s = rows::sigmoid(T(alpha) * x);
        return s * (T(1.0) + T(alpha) * x * (T(1.0) - s));
      }
    }
  }
  // What up stands for, and the derivative of that.
  template <class T>
  RIDGE_ROWS T gate(const T& up) const {
    if (function != kClampedSilu) return up;
    const double size = value_of(up);
    return (size > limit ? T(limit) : size < -limit ? T(-limit) : up) + T(1.0);
  }
  template <class T>
  RIDGE_ROWS T gate_slope(const T& up) const {
    const double size = value_of(up);
    return T(function != kClampedSilu || (size <= limit && size >= -limit) ? 1.0 : 0.0);
  }
};

}  // namespace ridge::ops::activation
