/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

void endpoint_free(struct endpoint *e)
{
	free(e->host);
	free(e->sock);
	free(e->base);
	free(e->ca);
	free(e->cert);
	free(e->key);
	*e = (struct endpoint){ 0 };
}

static bool set(const char *v)
{
	return v && *v;
}

/* dir/name if it is there, else NULL. -1 only for want of memory. */
static int pem(const char *dir, const char *name, char **out,
	       struct sc_err *err)
{
	char *p;

	if (asprintf(&p, "%s/%s", dir, name) < 0)
		return sc_oom(err, "certificate path");
	if (access(p, R_OK) == 0)
		*out = p;
	else
		free(p);
	return 0;
}

static int find_certs(struct endpoint *e, struct sc_err *err)
{
	const char *dir = getenv("DOCKER_CERT_PATH");
	const char *home = getenv("HOME");
	auto_free char *fallback = NULL;

	if (!set(dir)) {
		if (asprintf(&fallback, "%s/.docker", home ? home : "") < 0) {
			fallback = NULL;
			return sc_oom(err, "certificate path");
		}
		dir = fallback;
	}
	if (pem(dir, "ca.pem", &e->ca, err) < 0 ||
	    pem(dir, "cert.pem", &e->cert, err) < 0 ||
	    pem(dir, "key.pem", &e->key, err) < 0)
		return -1;
	/* Without ca.pem the system's authorities decide. The peer is
	 * verified in any case: what is sent there runs as root. */
	if (!e->cert != !e->key)
		return sc_fail(err, SC_EUSAGE, 0,
			       "%s has only one of cert.pem and key.pem", dir);
	return 0;
}

static int parse_tcp(const char *rest, struct endpoint *e, struct sc_err *err)
{
	const char *slash = strchrnul(rest, '/');
	const char *bracket = memrchr(rest, ']', (size_t)(slash - rest));
	const char *colon;
	size_t len = strlen(rest), host = (size_t)(slash - rest);

	if (!host || *rest == ':' || strpbrk(rest, " @?#"))
		return sc_fail(err, SC_EUSAGE, 0,
			       "engine address %s: not tcp://HOST:PORT",
			       e->host);
	e->tls = set(getenv("DOCKER_TLS_VERIFY")) ||
		 set(getenv("DOCKER_CERT_PATH"));
	if (e->tls && find_certs(e, err) < 0)
		return -1;
	while (len > host && rest[len - 1] == '/')
		len--;
	colon = memchr(bracket ? bracket : rest, ':',
		       host - (bracket ? (size_t)(bracket - rest) : 0));
	if (asprintf(&e->base, "%s://%.*s%s%.*s", e->tls ? "https" : "http",
		     (int)host, rest,
		     colon    ? ""
		     : e->tls ? ":2376"
			      : ":2375",
		     (int)(len - host), slash) < 0) {
		e->base = NULL;
		return sc_oom(err, "engine address");
	}
	return 0;
}

static int parse_unix(const char *path, struct endpoint *e, struct sc_err *err)
{
	if (*path != '/')
		return sc_fail(err, SC_EUSAGE, 0,
			       "engine address %s: not unix:///PATH", e->host);
	/* sun_path, with its NUL */
	if (strlen(path) >= 108)
		return sc_fail(err, SC_EUSAGE, 0,
			       "engine address %s: a socket's path has at "
			       "most 107 bytes",
			       e->host);
	e->sock = strdup(path);
	e->base = strdup("http://docker");
	if (!e->sock || !e->base)
		return sc_oom(err, "engine address");
	return 0;
}

static int parse(const char *host, struct endpoint *e, struct sc_err *err)
{
	e->host = strdup(host);
	if (!e->host)
		return sc_oom(err, "engine address");
	if (strncmp(host, "unix://", 7) == 0)
		return parse_unix(host + 7, e, err);
	if (strncmp(host, "tcp://", 6) == 0)
		return parse_tcp(host + 6, e, err);
	if (strncmp(host, "ssh://", 6) == 0)
		return sc_fail(err, SC_EUSAGE, 0,
			       "engine address %s: ssh is not supported yet; "
			       "forward the socket with ssh -L and use "
			       "unix://",
			       host);
	return sc_fail(err, SC_EUSAGE, 0,
		       "engine address %s: neither unix:///PATH nor "
		       "tcp://HOST:PORT",
		       host);
}

int endpoint_parse(const char *host, struct endpoint *out, struct sc_err *err)
{
	*out = (struct endpoint){ 0 };
	if (parse(host, out, err) == 0)
		return 0;
	endpoint_free(out);
	return -1;
}
