// What the programs in this folder check with.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <forebay.hpp>

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
      std::exit(1);                                                          \
    }                                                                        \
  } while (0)

// The number of the error that a call throws; 0 if it throws none.
template <class Call> int thrown(Call call) {
  try {
    call();
  } catch (const forebay::error &error) {
    return error.code();
  }
  return 0;
}

#endif
