"""MISRA C:2012 in the generated code of items and in kernels/c: every violation that cppcheck finds has a deviation."""
