#include "device/sim/actor.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "core/strings.h"

namespace cudaep::device::sim {
namespace {

template <class T>
bool ReadAt(std::ifstream& file, uint64_t offset, T* out, size_t count = 1) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(sizeof(T) * count));
  return file.good();
}

// Kernels have hidden visibility, so the dynamic symbols do not know them; the full table does unless stripped.
std::string SymbolAt(const char* path, uint64_t address) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header;
  if (!file || !ReadAt(file, 0, &header) || header.e_shentsize != sizeof(ElfW(Shdr))) return {};
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  if (!ReadAt(file, header.e_shoff, sections.data(), sections.size())) return {};
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    std::vector<ElfW(Sym)> symbols(section.sh_size / sizeof(ElfW(Sym)));
    if (!ReadAt(file, section.sh_offset, symbols.data(), symbols.size())) return {};
    for (const ElfW(Sym) & symbol : symbols) {
      if (symbol.st_value != address || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      file.seekg(static_cast<std::streamoff>(sections[section.sh_link].sh_offset + symbol.st_name));
      std::string name;
      std::getline(file, name, '\0');
      return name;
    }
  }
  return {};
}

std::string Demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  if (text == nullptr) return name;
  std::string demangled = text;
  std::free(text);
  return demangled;
}

}  // namespace

std::string KernelName(AnyKernel kernel) {
  Dl_info info{};
  void* address = reinterpret_cast<void*>(kernel);
  if (dladdr(address, &info) == 0) return StrCat("kernel at ", address);
  // An executable with a fixed address stores absolute values; everything else is relative to where it was loaded.
  const auto absolute = reinterpret_cast<uintptr_t>(address), base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(info.dli_fbase);
  std::string name = SymbolAt(info.dli_fname, header->e_type == ET_EXEC ? absolute : absolute - base);
  if (name.empty()) return StrCat("kernel at ", info.dli_fname, "+", reinterpret_cast<void*>(absolute - base));
  return Demangle(name);
}

std::string Actor::Describe() const {
  const std::string name = kernel != nullptr ? KernelName(kernel) : std::string(what != nullptr ? what : "nobody");
  return StrCat(name, " on stream ", stream);
}

}  // namespace cudaep::device::sim
