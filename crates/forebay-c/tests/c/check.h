// What the programs in this folder check with.
#ifndef CHECK_H
#define CHECK_H

#define _XOPEN_SOURCE 700 // beside -std=c11

#include <forebay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "%s:%d: %s; last: %s\n", __FILE__, __LINE__, #condition, forebay_last_error()); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

// Checks a value of the library, and prints it if it is another one.
#define CHECK_IS(expression, wanted)                                                            \
  do {                                                                                          \
    long long is_ = (long long)(expression);                                                    \
    if (is_ != (long long)(wanted)) {                                                           \
      fprintf(stderr, "%s:%d: %s is %lld; last: %s\n", __FILE__, __LINE__, #expression, is_,   \
              forebay_last_error());                                                            \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

#define SECOND INT64_C(1000000000)

#endif
