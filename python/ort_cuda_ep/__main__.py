"""`python -m ort_cuda_ep` is the command line `ort-cuda-ep`."""

from .cli import main

if __name__ == "__main__":
    main()
