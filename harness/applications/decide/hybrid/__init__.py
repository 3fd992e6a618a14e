"""`harness models hybrid`: a decided network with its checks, its safety net and the selection."""
