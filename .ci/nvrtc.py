"""Compiles a CUDA source to PTX: nvrtc.py FOLDER-OF-NVRTC SOURCE >PTX"""

import ctypes
import hashlib
import re
import sys

OPTIONS = [b"--gpu-architecture=compute_75", b"--std=c++17"]


def text_of(program, size, get):
    length = ctypes.c_size_t()
    size(program, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value)
    get(program, text)
    return text.value.decode()


def main():
    folder, path = sys.argv[1:]
    # The compiler looks for this one by its name alone.
    ctypes.CDLL(f"{folder}/libnvrtc-builtins.so.12.2", mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(f"{folder}/libnvrtc.so.12")
    with open(path, "rb") as file:
        source = file.read()
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source, b"kernels.cu", 0, None, None
    )
    if created != 0:
        sys.exit(f"NVRTC's error {created}")
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options)
    log = text_of(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    if log or failed:
        sys.exit(log or f"NVRTC's error {failed}")
    ptx = text_of(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    # Constants of a header that no kernel uses.
    ptx = re.sub(r"^\.global \.align 8 \.u64 _ZN\S+detail\S+ = \d+;\n", "", ptx, flags=re.M)
    print(f"// kernels.cu, SHA-256 {hashlib.sha256(source).hexdigest()}")
    sys.stdout.write(ptx)


if __name__ == "__main__":
    main()
