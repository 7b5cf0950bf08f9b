/* Names and texts of errors. */
#include <stddef.h>

#include "standin.h"

/* By number: the name in the driver API, in the runtime API, and the text of both. */
static const struct { int code; const char *name, *runtime_name, *text; } ERRORS[] = {
    {SUCCESS, "CUDA_SUCCESS", "cudaSuccess",
     "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue",
     "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation",
     "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "cudaErrorInitializationError",
     "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice",
     "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "cudaErrorInvalidDevice",
     "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "cudaErrorInvalidKernelImage",
     "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "cudaErrorDeviceUninitialized",
     "invalid device context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "cudaErrorUnsupportedPtxVersion",
     "the provided PTX was compiled with an unsupported toolchain."},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "cudaErrorSymbolNotFound",
     "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "cudaErrorNotReady",
     "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "cudaErrorMisalignedAddress",
     "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure",
     "unspecified launch failure"},
    {COOPERATIVE_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported",
     "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {710, "CUDA_ERROR_ASSERT", "cudaErrorAssert",
     "device-side assert triggered"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "cudaErrorIllegalInstruction",
     "an illegal instruction was encountered"},
    {999, "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown",
     "unknown error"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "cudaErrorStreamCaptureUnmatched",
     "capture was not initiated in this stream"},
    {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {35, "CUDA_ERROR_STUB_LIBRARY", "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
};

enum { NAME, RUNTIME_NAME, TEXT };

static const char *look_up(int code, int what) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code)
            return what == NAME ? ERRORS[i].name : what == TEXT ? ERRORS[i].text : ERRORS[i].runtime_name;
    return NULL;
}

EXPORT int cuGetErrorString(int code, const char **text) {
    *text = look_up(code, TEXT);
    return *text ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuGetErrorName(int code, const char **name) {
    *name = look_up(code, NAME);
    return *name ? SUCCESS : INVALID_VALUE;
}

EXPORT const char *standin_cudaGetErrorName(int code) {
    const char *name = look_up(code, RUNTIME_NAME);
    return name ? name : "cudaErrorUnknown";
}

EXPORT const char *standin_cudaGetErrorString(int code) {
    const char *text = look_up(code, TEXT);
    return text ? text : "unknown error";
}
