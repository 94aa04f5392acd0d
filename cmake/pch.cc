// CMake precompiles headers for a target only; this is the source of that target.
