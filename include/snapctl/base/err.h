/* SPDX-License-Identifier: MIT */
/* One error by value. A function that can fail takes a struct sc_err as its
 * last argument and returns -1 after filling it; each layer adds its context
 * once, at the front. It needs no memory, so it survives ENOMEM and travels
 * between threads by assignment. Nothing below cmd/ prints or exits. */
#ifndef SNAPCTL_BASE_ERR_H
#define SNAPCTL_BASE_ERR_H

#define SC_ERR_MSG 1024

/* What kind of failure it was. cmd/ maps it to an exit code. */
enum sc_code {
	SC_OK = 0,
	SC_EIO,	      /* the system refused an operation; sys says why */
	SC_ENOMEM,    /* out of memory */
	SC_EUSAGE,    /* the command line or a request was wrong: exit 2 */
	SC_ENOTFOUND, /* the thing named does not exist */
	SC_EREFUSED,  /* refused before anything was changed */
	SC_ELOCKED,   /* somebody else holds it: exit 5 */
	SC_EINTR,     /* the user asked to stop: exit 130 */
	SC_EENGINE,   /* the container engine failed or said no */
	SC_EPROTO,    /* a peer broke the protocol */
	SC_ECORRUPT,  /* stored bytes are not what was recorded */
	SC_ETORN,     /* data changed while it was read */
	SC_EPARTIAL,  /* failed after something was changed: exit 4 */
};

struct sc_err {
	enum sc_code code;
	int sys; /* errno of the cause, or 0 */
	char msg[SC_ERR_MSG];
};

/* Fills err (may be NULL) with the formatted text, followed by ": " and the
 * text of sys when sys is not 0. Always returns -1. */
int sc_fail(struct sc_err *err, enum sc_code code, int sys, const char *fmt,
	    ...) __attribute__((format(printf, 4, 5)));

/* Puts "fmt: " before the message that err holds. Always returns -1. */
int sc_wrap(struct sc_err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* sc_fail for a failed allocation of what. Always returns -1. */
int sc_oom(struct sc_err *err, const char *what);

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time; it must be told what they return. */
static inline int sc_always(int rc)
{
	(void)rc;
	return -1;
}
#define sc_fail(...) sc_always(sc_fail(__VA_ARGS__))
#define sc_wrap(...) sc_always(sc_wrap(__VA_ARGS__))
#define sc_oom(...)  sc_always(sc_oom(__VA_ARGS__))
#endif

#endif
