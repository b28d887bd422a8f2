/* SPDX-License-Identifier: MIT */
#include <snapctl/base/err.h>

#undef sc_fail
#undef sc_wrap
#undef sc_oom

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* strerror is not thread-safe; the GNU strerror_r returns the text. */
static void append_cause(char *msg, size_t cap, int sys)
{
	char text[128];
	const char *why = sys ? strerror_r(sys, text, sizeof(text)) : NULL;
	size_t len = strlen(msg);

	if (why)
		snprintf(msg + len, cap - len, ": %s", why);
}

int sc_fail(struct sc_err *err, enum sc_code code, int sys, const char *fmt,
	    ...)
{
	va_list ap;

	if (!err)
		return -1;
	err->code = code;
	err->sys = sys;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	append_cause(err->msg, sizeof(err->msg), sys);
	return -1;
}

int sc_wrap(struct sc_err *err, const char *fmt, ...)
{
	char msg[SC_ERR_MSG];
	va_list ap;
	size_t len;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	len = strlen(msg);
	snprintf(msg + len, sizeof(msg) - len, ": %.*s", (int)(sizeof(msg) - 3),
		 err->msg);
	memcpy(err->msg, msg, sizeof(msg));
	return -1;
}

int sc_oom(struct sc_err *err, const char *what)
{
	return sc_fail(err, SC_ENOMEM, ENOMEM, "allocate %s", what);
}
