// What Swift's importer cannot see of libwebsockets.
#ifndef TOUCHLINE_CLIBWEBSOCKETS_SHIMS_H
#define TOUCHLINE_CLIBWEBSOCKETS_SHIMS_H

#include <libwebsockets.h>

/// LWS_PRE is a macro of macros: the room lws_write() wants in front of a payload (lws-write.h).
static inline size_t shim_lws_pre(void) { return LWS_PRE; }

/// Hands bytes that are complete on the wire to lws. LWS_WRITE_RAW is a macro, and lws_write() takes a
/// pointer to mutable bytes although it only frames, and so only writes to, the other kinds.
static inline int shim_write_raw(struct lws *wsi, const void *bytes, size_t count) {
  return lws_write(wsi, (unsigned char *)bytes, count, LWS_WRITE_RAW);
}

#endif
