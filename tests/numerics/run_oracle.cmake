# Runs oracle.py, or says what is missing: a comparison that silently does not happen would look like a pass.
if(NOT EXISTS "${PYTHON}")
  message(FATAL_ERROR "numerics_oracle: no Python at ${PYTHON}; run scripts/setup, or set RIDGE_PYTHON to a Python that has "
                      "numpy and ml_dtypes")
endif()
execute_process(COMMAND "${PYTHON}" -c "import numpy, ml_dtypes" RESULT_VARIABLE missing ERROR_QUIET)
if(missing)
  message(FATAL_ERROR "numerics_oracle: ${PYTHON} has no numpy or no ml_dtypes; run scripts/setup")
endif()
execute_process(COMMAND "${PYTHON}" "${SCRIPT}" "${PROGRAM}" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "numerics_oracle: conversion differs from the oracle")
endif()
