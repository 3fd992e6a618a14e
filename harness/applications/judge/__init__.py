"""`harness judge`: outputs and layers that another engine computed, compared with the exact specification."""
