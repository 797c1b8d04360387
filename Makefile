# Thin front of CMake presets and tools/; `make help` lists the targets. Stamps make a second call do no set-up.
PYTHON_ENV := .venv/bin/python
OLD_HOST := 1.24.4
STAMPS := build/.system .venv/.stamp build/hosts/$(OLD_HOST)/.complete
# The CUDA library is part of `make run` only where it can be built and used.
GPU := $(shell PATH=$$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null && test -e /dev/nvidiactl && echo yes)

.DEFAULT_GOAL := help
.PHONY: help setup sim cuda asan tsan run test lint doctor clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 10

setup: $(STAMPS)  ## system packages, .venv and the oldest supported host (done by the others when needed)

sim: setup  ## build the library for the simulated device, and its tests
	@tools/build.sh sim

cuda: setup  ## build the library for NVIDIA GPUs, and its tests
	@tools/build.sh cuda

asan: setup  ## all C++ tests on the simulated device under the address sanitizer
	@tools/build.sh asan && ctest --preset asan

tsan: setup  ## the tests below the host's ABI under the thread sanitizer
	@tools/build.sh tsan && ctest --preset tsan

run: setup  ## read the text in a picture with three real models, every compute node on our provider
	@tools/build.sh sim lib/libort_cuda_ep_sim.so
	$(if $(GPU),@tools/build.sh cuda lib/libort_cuda_ep.so)
	@$(PYTHON_ENV) -m ort_cuda_ep.demo.ocr

test: sim  ## all tests of this machine, on the simulated device
	@$(PYTHON_ENV) tools/run_tests.py

lint: setup  ## format, style, types, layers, file sizes, leaks
	@$(PYTHON_ENV) tools/lint.py

doctor: setup  ## what is installed, what is missing and how to get it
	@$(PYTHON_ENV) -m ort_cuda_ep doctor

clean:  ## remove everything that was built (.venv stays)
	rm -rf build

build/.system: tools/setup_system.sh tools/python_version.sh
	@tools/setup_system.sh
	@mkdir -p $(@D) && touch $@

.venv/.stamp: requirements.txt pyproject.toml tools/setup_python.sh | build/.system
	@tools/setup_python.sh
	@touch $@

build/hosts/$(OLD_HOST)/.complete: | .venv/.stamp
	@$(PYTHON_ENV) tools/hosts.py $(OLD_HOST) >/dev/null
