# Thin front of CMake presets and tools/; `make help` lists the targets. Stamps make a second call do no set-up.
PYTHON_ENV := .venv/bin/python
# Hosts of every test run beside that of .venv, as tools/hosts.py has them.
OLD_HOSTS := 1.24.4 1.27.0
STAMPS := build/.system .venv/.stamp $(OLD_HOSTS:%=build/hosts/%/.complete)
# The CUDA library is part of `make run` only where it can be built and used.
GPU := $(shell PATH=$$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null && test -e /dev/nvidiactl && echo yes)

.DEFAULT_GOAL := help
.PHONY: help setup sim cuda asan tsan wheel wheel-check release-check run frameworks serve-check test conformance parity bench matrix fuzz fuzz-operators lint tidy doctor clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

setup: $(STAMPS)  ## system packages, .venv and older hosts (done by the others when needed)

sim: setup  ## build the library for the simulated device, and its tests
	@tools/build.sh sim

cuda: setup  ## build the library for NVIDIA GPUs, and its tests
	@tools/build.sh cuda

# What of the C++ tests each sanitizer builds: all that do not load the host; the layers in which threads meet.
ASAN_TESTS := test_core test_device test_growable test_vocabulary test_kernels test_lib test_cublaslt test_memory test_runtime test_ops test_plans test_graph
TSAN_TESTS := test_core test_device test_memory test_runtime test_plans

asan: setup  ## C++ tests and one case per operator and kind of type, under the address sanitizer
	@tools/build.sh asan $(ASAN_TESTS) lib/libcudaep_op_driver.so
	@tools/run_cpp_tests.sh asan $(ASAN_TESTS)
	@tools/asan_cases.sh

tsan: setup  ## core, device, memory, runtime and plans under the thread sanitizer
	@tools/build.sh tsan $(TSAN_TESTS)
	@tools/run_cpp_tests.sh tsan $(TSAN_TESTS)

# The build whose library for GPUs goes into the wheel: every architecture of a release where there is a toolkit.
CUDA = $(shell PATH=$$PATH:$${CUDA_PATH:-/usr/local/cuda}/bin command -v nvcc >/dev/null && echo cuda-release)

wheel: setup  ## the Python wheel with both libraries, in dist/; CUDA=cuda: for one architecture, fast; CUDA=: without one
	@tools/build.sh sim lib/libort_cuda_ep_sim.so
	$(if $(CUDA),@tools/build.sh $(CUDA) lib/libort_cuda_ep.so)
	@rm -rf dist
	@$(PYTHON_ENV) tools/make_wheel.py $(if $(CUDA),--cuda $(CUDA))

wheel-check: wheel  ## install the wheel where nothing else is, on the oldest and the newest host, and use it
	@$(PYTHON_ENV) tools/check_wheel.py dist/*.whl

release-check: setup  ## everything that a release needs, for every architecture (some two hours on 2 cores)
	@$(PYTHON_ENV) tools/checks/release.py
	@$(MAKE) test wheel-check serve-check frameworks CUDA=cuda-release

tidy: setup  ## clang-tidy on src
	@test -f build/sim/compile_commands.json || cmake --preset sim
	@$(PYTHON_ENV) tools/tidy.py

run: setup  ## read the text in a picture with three real models, every compute node on our provider
	@tools/build.sh sim lib/libort_cuda_ep_sim.so
	$(if $(GPU),@tools/build.sh cuda lib/libort_cuda_ep.so)
	@$(PYTHON_ENV) -m ort_cuda_ep.demo.ocr

test: sim  ## all tests of this machine, on the simulated device
	@$(PYTHON_ENV) tools/run_tests.py

conformance: setup  ## ONNX's node tests through the host on the simulated device; JSON=PATH writes every outcome to a file
	@tools/build.sh sim lib/libort_cuda_ep_sim.so
	@PYTHONPATH=python:. $(PYTHON_ENV) -m tests.conformance --at-least 1700 $(if $(JSON),--json $(JSON))

parity: setup  ## what upstream's CUDA provider has and ours lacks; PROVIDER=NAME [LIBRARY=FILE]: another one, as the host knows it
	@tools/build.sh sim lib/libcudaep_op_driver.so
	@PYTHONPATH=python:. $(PYTHON_ENV) tools/parity.py $(if $(PROVIDER),--provider $(PROVIDER)) $(if $(LIBRARY),--library $(LIBRARY))

bench: setup  ## measure against upstream: UPSTREAM=FOLDER, BASELINE=LIBRARY, BENCH="--cases ... --json FILE"; tiny without a GPU
	@tools/build.sh $(if $(GPU),cuda,sim) lib/libort_cuda_ep$(if $(GPU),,_sim).so launch_loop
	@PYTHONPATH=python:. $(PYTHON_ENV) -m bench run $(if $(UPSTREAM),--upstream $(UPSTREAM)) $(if $(BASELINE),--baseline $(BASELINE)) $(BENCH)

serve-check: setup  ## the serving example under load on simulated devices, in build/serve; SECONDS=60
	@tools/build.sh sim lib/libort_cuda_ep_sim.so
	@examples/serve/check.sh --seconds $(or $(SECONDS),60)

frameworks: setup  ## optimum and sentence-transformers as they come on our provider, in build/frameworks (some gigabytes)
	@tools/build.sh $(if $(GPU),cuda,sim) lib/libort_cuda_ep$(if $(GPU),,_sim).so
	@tests/frameworks/run.sh

matrix: sim  ## the session suites on every supported ONNX Runtime, as a table; JSON=PATH writes it to a file too
	@$(PYTHON_ENV) tools/matrix.py $(if $(JSON),--json $(JSON))

fuzz: sim  ## fuzz options and models through the host for DURATION seconds, an hour by default
	@$(PYTHON_ENV) -m tests.fuzz.campaign --seconds $(DURATION)

fuzz-operators: setup  ## single operators against the CPU provider and ONNX's reference: CASES=20000, or SECONDS=600
	@tools/build.sh sim lib/libort_cuda_ep_sim.so lib/libcudaep_op_driver.so
	@PYTHONPATH=python:. $(PYTHON_ENV) -m tests.fuzz.operators $(if $(CASES),--cases $(CASES)) $(if $(SECONDS),--seconds $(SECONDS))

lint: setup  ## format, style, types, layers, file sizes, leaks
	@$(PYTHON_ENV) tools/lint.py

doctor: setup  ## what is installed, what is missing and how to get it
	@$(PYTHON_ENV) -m ort_cuda_ep doctor

clean:  ## remove everything that was built (.venv stays)
	rm -rf build dist

build/.system: tools/setup_system.sh tools/python_version.sh
	@tools/setup_system.sh
	@mkdir -p $(@D) && touch $@

.venv/.stamp: requirements.txt pyproject.toml tools/setup_python.sh | build/.system
	@tools/setup_python.sh
	@touch $@

build/hosts/%/.complete: | .venv/.stamp
	@$(PYTHON_ENV) tools/hosts.py $* >/dev/null
