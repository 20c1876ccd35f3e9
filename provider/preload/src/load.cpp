// What happens when the library is loaded: the look-ups that would otherwise be made at each
// function's first use. Nothing depends on it; other libraries' constructors may run before.
#include "real.hpp"

namespace verbena::preload {
namespace {

__attribute__((constructor)) void on_load() { look_up_all_real_functions(); }

}  // namespace
}  // namespace verbena::preload
