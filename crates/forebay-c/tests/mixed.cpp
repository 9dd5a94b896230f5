// One program of two files, one of them compiled without exceptions: each of them reports errors in its own way.
#include <forebay.hpp>

#ifdef __cpp_exceptions
bool plain_pops_nothing();

int main(int count, char **) {
  if (count > 1) return plain_pops_nothing() ? 1 : 2; // it ends here
  auto [in, out] = forebay::ring<int>(4);
  try {
    out.pop(std::chrono::milliseconds(1));
  } catch (const forebay::error &error) {
    return error.code() == FOREBAY_TIMED_OUT ? 0 : 3;
  }
  return 4;
}
#else
bool plain_pops_nothing();

bool plain_pops_nothing() {
  auto [in, out] = forebay::ring<int>(4);
  return out.pop(std::chrono::milliseconds(1)) == 0;
}
#endif
