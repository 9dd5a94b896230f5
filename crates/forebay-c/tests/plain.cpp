// C++ without exceptions and without type information: calls that do not throw work, and one that would throw ends the program.
#include <forebay.hpp>

int main(int count, char **) {
  auto [in, out] = forebay::ring<int>(4);
  int number = 0;
  if (in.try_push(7) != 0 || out.try_pop(number) != 0 || number != 7) return 1;
  if (count > 1) forebay::shared_queue::attach("no such queue");
  return 0;
}
