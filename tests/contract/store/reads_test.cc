#include "tests/contract/store/world.h"
