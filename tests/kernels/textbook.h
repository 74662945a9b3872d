// Textbook factorisations, for the emulated libraries.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

using Int = std::int64_t;
using Word = unsigned long long;

// The libraries' status for an invalid argument.
constexpr int INVALID = 7;

template <typename T>
T conjugate(T x) {
  return x;
}
template <typename T>
std::complex<T> conjugate(std::complex<T> x) {
  return std::conj(x);
}
template <typename T>
double size(T x) {
  return std::fabs(double(x));
}
template <typename T>
double size(std::complex<T> x) {
  return std::fabs(double(x.real())) + std::fabs(double(x.imag()));
}
template <typename T>
double real_part(T x) {
  return double(x);
}
template <typename T>
double real_part(std::complex<T> x) {
  return double(x.real());
}

// A column-major matrix with an operation: 0 none, 1 transposed, 2 adjoint.
template <typename T>
struct Matrix {
  T* at;
  Int leading;
  int op;
  T& stored(Int i, Int j) const { return at[i + j * leading]; }
  T operator()(Int i, Int j) const {
    if (op == 0) return stored(i, j);
    return op == 1 ? stored(j, i) : conjugate(stored(j, i));
  }
};

template <typename T>
Matrix<T> matrix(Word at, Int leading, int op = 0) {
  return {reinterpret_cast<T*>(at), leading, op};
}

template <typename T>
int factor_cholesky(const Matrix<T>& a, Int n) {
  for (Int j = 0; j < n; j++) {
    double diagonal = real_part(a.stored(j, j));
    for (Int l = 0; l < j; l++) diagonal -= real_part(a.stored(j, l) * conjugate(a.stored(j, l)));
    // A NaN passes.
    if (diagonal <= 0) return int(j + 1);
    a.stored(j, j) = T(std::sqrt(diagonal));
    for (Int i = j + 1; i < n; i++) {
      T sum = a.stored(i, j);
      for (Int l = 0; l < j; l++) sum -= a.stored(i, l) * conjugate(a.stored(j, l));
      a.stored(i, j) = sum / a.stored(j, j);
    }
  }
  return 0;
}

template <typename T>
int factor_lu(const Matrix<T>& a, Int m, Int n, Int* pivots) {
  int info = 0;
  for (Int j = 0; j < (m < n ? m : n); j++) {
    Int pivot = j;
    for (Int i = j + 1; i < m; i++) {
      if (size(a.stored(i, j)) > size(a.stored(pivot, j))) pivot = i;
    }
    // No row if none can be chosen; then it goes on, dividing by zero.
    pivots[j] = std::isnan(size(a.stored(pivot, j))) ? 0 : pivot + 1;
    if (a.stored(pivot, j) == T(0) && info == 0) info = int(j + 1);
    for (Int l = 0; l < n; l++) std::swap(a.stored(j, l), a.stored(pivot, l));
    for (Int i = j + 1; i < m; i++) {
      a.stored(i, j) /= a.stored(j, j);
      for (Int l = j + 1; l < n; l++) a.stored(i, l) -= a.stored(i, j) * a.stored(j, l);
    }
  }
  return info;
}

// Householder's reflectors; R in the upper triangle.
template <typename T>
void factor_qr(const Matrix<T>& a, Int m, Int n, T* coefficients) {
  for (Int j = 0; j < (m < n ? m : n); j++) {
    T& alpha = a.stored(j, j);
    double most = 0, squares = 0;
    for (Int i = j; i < m; i++) most = std::fmax(most, size(a.stored(i, j)));
    bool below = false;
    for (Int i = j; i < m; i++) {
      double part = double(std::abs(a.stored(i, j))) / (most > 0 ? most : 1);
      squares += part * part;
      if (i > j) below |= a.stored(i, j) != T(0);
    }
    coefficients[j] = T(0);
    if (!below && alpha == T(real_part(alpha))) continue;
    double norm = most * std::sqrt(squares);
    T beta = T(real_part(alpha) > 0 ? -norm : norm);
    T tau = (beta - alpha) / beta, scale = T(1) / (alpha - beta);
    for (Int i = j + 1; i < m; i++) a.stored(i, j) *= scale;
    alpha = beta, coefficients[j] = tau;
    for (Int l = j + 1; l < n; l++) {
      T product = a.stored(j, l);
      for (Int i = j + 1; i < m; i++) product += conjugate(a.stored(i, j)) * a.stored(i, l);
      product *= conjugate(tau);
      a.stored(j, l) -= product;
      for (Int i = j + 1; i < m; i++) a.stored(i, l) -= a.stored(i, j) * product;
    }
  }
}

// Calls work(T{}) with the type of a cudaDataType.
template <typename Work>
int with_type(int type, Work work) {
  switch (type) {
    case 0:
      return work(float{});
    case 1:
      return work(double{});
    case 4:
      return work(std::complex<float>{});
    case 5:
      return work(std::complex<double>{});
  }
  return INVALID;
}

template <typename T>
std::complex<double> wide(T x) {
  return double(x);
}
template <typename T>
std::complex<double> wide(std::complex<T> x) {
  return {double(x.real()), double(x.imag())};
}
template <typename T>
void narrow(std::complex<double> x, T& to) {
  to = T(x.real());
}
template <typename T>
void narrow(std::complex<double> x, std::complex<T>& to) {
  to = {T(x.real()), T(x.imag())};
}

// The eigenvalues, ascending, and eigenvectors in the place of a Hermitian matrix, of which the
// lower triangle is given: Jacobi's rotations. How many do not converge.
template <typename T>
int decompose_hermitian(const Matrix<T>& a, Int n, double* values) {
  using Number = std::complex<double>;
  std::vector<Number> h(size_t(n * n)), v(size_t(n * n));
  auto at = [n](std::vector<Number>& x, Int i, Int j) -> Number& { return x[size_t(i + j * n)]; };
  for (Int j = 0; j < n; j++) {
    at(v, j, j) = 1;
    at(h, j, j) = real_part(a.stored(j, j));
    for (Int i = j + 1; i < n; i++) at(h, j, i) = std::conj(at(h, i, j) = wide(a.stored(i, j)));
  }
  Int left = n > 1;
  for (int sweep = 0; left && sweep < 60; sweep++) {
    left = 0;
    for (Int p = 0; p < n; p++) {
      for (Int q = p + 1; q < n; q++) {
        const double size = std::abs(at(h, p, q));
        const double gap = at(h, q, q).real() - at(h, p, p).real();
        const double both = std::fabs(at(h, p, p).real()) + std::fabs(at(h, q, q).real());
        if (size <= 1e-17 * both || size < 1e-300) continue;
        left++;
        const double tau = gap / (2 * size);
        const double t = (tau < 0 ? -1 : 1) / (std::fabs(tau) + std::hypot(1.0, tau));
        const double c = 1 / std::hypot(1.0, t), s = t * c;
        const Number turn = std::conj(at(h, p, q)) / size;
        for (auto* x : {&h, &v})
          for (Int k = 0; k < n; k++) {
            const Number one = at(*x, k, p), other = turn * at(*x, k, q);
            at(*x, k, p) = c * one - s * other;
            at(*x, k, q) = s * one + c * other;
          }
        for (Int k = 0; k < n; k++) {
          const Number one = at(h, p, k), other = std::conj(turn) * at(h, q, k);
          at(h, p, k) = c * one - s * other;
          at(h, q, k) = s * one + c * other;
        }
      }
    }
  }
  std::vector<Int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), Int(0));
  std::sort(order.begin(), order.end(),
            [&](Int i, Int j) { return at(h, i, i).real() < at(h, j, j).real(); });
  for (Int j = 0; j < n; j++) {
    values[j] = at(h, order[size_t(j)], order[size_t(j)]).real();
    for (Int i = 0; i < n; i++) narrow(at(v, i, order[size_t(j)]), a.stored(i, j));
  }
  return int(left);
}
