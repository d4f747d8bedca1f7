"""Tests of the plugin inside unmodified llama.cpp stock. `scripts/test` runs a subset, `scripts/test-full` all."""
