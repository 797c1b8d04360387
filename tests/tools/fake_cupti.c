// Stands for libcupti in tests: a flush delivers a kernel, a copy and a fill in buffers of two records each, in the
// layouts of the toolkit's header. CUPTI must be detached before it can be attached again.
#include <cupti.h>
#include <stdlib.h>
#include <string.h>

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static int enabled, attached;

static const char kName[] = "_Z6kernelv";
static const size_t kStride = sizeof(CUpti_ActivityKernel10);

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
  if (attached) return CUPTI_ERROR_INVALID_OPERATION;
  attached = 1;
  request = r;
  complete = c;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  enabled += kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || kind == CUPTI_ACTIVITY_KIND_MEMCPY ||
             kind == CUPTI_ACTIVITY_KIND_MEMSET;
  return getenv("FAKE_CUPTI_REFUSES") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  (void)kind;
  --enabled;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiFinalize(void) {
  attached = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  (void)result;
  *text = "refused";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* next = *record == NULL ? buffer : (uint8_t*)*record + kStride;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity*)next;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  uint8_t* buffer;
  size_t size, most;
  if (flag != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED || enabled != 3) return CUPTI_ERROR_INVALID_PARAMETER;
  request(&buffer, &size, &most);
  if (size < 2 * kStride || most != 0) return CUPTI_ERROR_INVALID_PARAMETER;
  memset(buffer, 0xff, 2 * kStride);
  CUpti_ActivityMemcpy6* copy = (CUpti_ActivityMemcpy6*)buffer;
  copy->kind = CUPTI_ACTIVITY_KIND_MEMCPY, copy->start = 5000, copy->end = 6000;
  CUpti_ActivityKernel10* kernel = (CUpti_ActivityKernel10*)(buffer + kStride);
  kernel->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel->start = 1000, kernel->end = 3500, kernel->name = kName;
  complete(NULL, 0, buffer, size, 2 * kStride);
  request(&buffer, &size, &most);
  memset(buffer, 0xff, kStride);
  CUpti_ActivityMemset4* fill = (CUpti_ActivityMemset4*)buffer;
  fill->kind = CUPTI_ACTIVITY_KIND_MEMSET, fill->start = 4000, fill->end = 4500;
  complete(NULL, 0, buffer, size, kStride);
  return CUPTI_SUCCESS;
}
