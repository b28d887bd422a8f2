/* SPDX-License-Identifier: MIT */
#include <snapctl/base/text.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <snapctl/base/mem.h>

/* Code points that are valid UTF-8 but act on the terminal or on the reader
 * instead of being seen: they could make one name look like another. */
static const struct {
	uint32_t first, last;
} hidden[] = {
	{ 0x00, 0x1f },	      /* C0 */
	{ 0x7f, 0x9f },	      /* DEL, C1 */
	{ 0xad, 0xad },	      /* soft hyphen */
	{ 0x61c, 0x61c },     /* bidi mark */
	{ 0x180e, 0x180e },   /* vowel separator */
	{ 0x200b, 0x200f },   /* zero width, bidi marks */
	{ 0x2028, 0x202e },   /* line and paragraph separator, bidi */
	{ 0x2060, 0x206f },   /* invisible operators, bidi isolates */
	{ 0xfe00, 0xfe0f },   /* variation selectors */
	{ 0xfeff, 0xfeff },   /* byte order mark */
	{ 0xfff0, 0xfffb },   /* unassigned specials, annotation marks */
	{ 0xfffe, 0xffff },   /* not characters */
	{ 0xe0000, 0xe0fff }, /* tags */
};

static bool is_hidden(uint32_t c)
{
	for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
		if (c >= hidden[i].first && c <= hidden[i].last)
			return true;
	return (c & 0xfffe) == 0xfffe;
}

/* Length of the valid UTF-8 sequence at p, its code point in *c; 0 if the
 * bytes are none (cut, over-long, surrogate, above U+10FFFF). */
static size_t utf8_next(const unsigned char *p, size_t n, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len;

	if (p[0] < 0x80)
		len = 1;
	else if (p[0] >= 0xc2 && p[0] < 0xe0)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] < 0xf0)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] < 0xf5)
		len = 4;
	else
		return 0;
	if (len > n)
		return 0;
	*c = len == 1 ? p[0] : p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (p[i] & 0x3f);
	}
	if (*c < least[len] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
		return 0;
	return len;
}

/* The escaped form of the next character into out (at most 16 bytes), its
 * length in *len. Returns how many bytes of p it stands for. */
static size_t escape_one(const unsigned char *p, size_t n, char out[17],
			 size_t *len)
{
	uint32_t c = 0;
	size_t k = utf8_next(p, n, &c);

	*len = 0;
	if (k == 1 && (c == '\n' || c == '\t' || c == '\\')) {
		out[(*len)++] = '\\';
		out[(*len)++] = c == '\n' ? 'n' : c == '\t' ? 't' : '\\';
		return 1;
	}
	if (k && !is_hidden(c)) {
		memcpy(out, p, k);
		*len = k;
		return k;
	}
	if (!k)
		k = 1;
	for (size_t i = 0; i < k; i++)
		*len += (size_t)snprintf(out + *len, 5, "\\x%02x", p[i]);
	return k;
}

void text_escape(struct buf *out, const void *p, size_t n)
{
	const unsigned char *at = p;
	char one[17];
	size_t len;

	while (n && !out->failed) {
		size_t k = escape_one(at, n, one, &len);

		buf_put(out, one, len);
		at += k;
		n -= k;
	}
}

const char *text_escaped(char *out, size_t cap, const void *p, size_t n)
{
	const unsigned char *at = p;
	size_t used = 0, fits = 0, len; /* fits: where "..." still has room */
	char one[17];

	if (!cap)
		return out;
	while (n) {
		size_t k = escape_one(at, n, one, &len);

		if (used + len > cap - 1)
			break;
		memcpy(out + used, one, len);
		used += len;
		at += k;
		n -= k;
		if (used + 3 <= cap - 1)
			fits = used;
	}
	if (n) {
		len = cap - 1 - fits < 3 ? cap - 1 - fits : 3;
		memcpy(out + fits, "...", len);
		used = fits + len;
	}
	out[used] = 0;
	return out;
}

const char *text_size(char out[16], uint64_t bytes)
{
	static const char *const unit[] = { "KiB", "MiB", "GiB",
					    "TiB", "PiB", "EiB" };
	double v = (double)bytes / 1024;
	size_t i = 0;
	int digits = 0;

	if (bytes < 1024) {
		snprintf(out, 16, "%u B", (unsigned)bytes);
		return out;
	}
	/* What would round to 1024 belongs to the next unit. */
	while (v >= 1023.5 && i + 1 < ARRAY_LEN(unit)) {
		v /= 1024;
		i++;
	}
	if (v < 9.995)
		digits = 2;
	else if (v < 99.95)
		digits = 1;
	snprintf(out, 16, "%.*f %s", digits, v, unit[i]);
	return out;
}

const char *text_duration(char out[32], double seconds)
{
	unsigned long long s;

	if (!(seconds > 0))
		seconds = 0;
	if (seconds > 1e12)
		seconds = 1e12;
	if (seconds < 59.95) {
		snprintf(out, 32, "%.*f s", seconds < 9.995 ? 2 : 1, seconds);
		return out;
	}
	s = (unsigned long long)(seconds + 0.5);
	if (s < 3600)
		snprintf(out, 32, "%llu min %02llu s", s / 60, s % 60);
	else if (s < 2 * 86400ull)
		snprintf(out, 32, "%llu h %02llu min", s / 3600, s / 60 % 60);
	else
		snprintf(out, 32, "%llu d %02llu h", s / 86400, s / 3600 % 24);
	return out;
}

const char *text_utc(char out[32], time_t t, int compact)
{
	struct tm tm;

	if (!gmtime_r(&t, &tm) ||
	    !strftime(out, 32,
		      compact ? "%Y%m%dT%H%M%SZ" : "%Y-%m-%dT%H:%M:%SZ", &tm))
		snprintf(out, 32, "?");
	return out;
}

const char *text_age(char out[32], time_t then, time_t now)
{
	bool ahead = then > now; /* a clock was wrong: say it, hide nothing */
	unsigned long long s =
		ahead ? (unsigned long long)then - (unsigned long long)now
		      : (unsigned long long)now - (unsigned long long)then;
	const char *unit = "d";

	if (s < 60) {
		unit = "s";
	} else if (s < 3600) {
		s /= 60;
		unit = "min";
	} else if (s < 2 * 86400ull) {
		s /= 3600;
		unit = "h";
	} else {
		s /= 86400;
	}
	snprintf(out, 32, "%s%llu %s%s", ahead ? "in " : "", s, unit,
		 ahead ? "" : " ago");
	return out;
}

#define DISTANCE_MAX 255

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

unsigned text_distance(const char *a, const char *b)
{
	unsigned rows[3][DISTANCE_MAX + 1];
	unsigned *two = rows[0], *one = rows[1], *cur = rows[2];
	size_t na = strlen(a), nb = strlen(b);

	/* Nothing that long is a slip of the finger: the largest distance. */
	if (na > DISTANCE_MAX || nb > DISTANCE_MAX)
		return (unsigned)(na > nb ? na : nb);
	for (size_t j = 0; j <= nb; j++)
		cur[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *t = two;

		two = one;
		one = cur;
		cur = t;
		cur[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			cur[j] = min3(one[j] + 1, cur[j - 1] + 1,
				      one[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && two[j - 2] + 1 < cur[j])
				cur[j] = two[j - 2] + 1;
		}
	}
	return cur[nb];
}

#define NEAR_MAX 5

/* How far name is from wanted; false if it is not near at all. */
static bool nearness(const char *wanted, const char *name, unsigned *rank)
{
	size_t nw = strlen(wanted), nn = strlen(name);
	unsigned d = text_distance(wanted, name);

	if (!nw || !nn)
		return false;
	*rank = d;
	if (strncmp(wanted, name, nw < nn ? nw : nn) == 0) {
		*rank = d ? 1 : 0;
		return true;
	}
	return (size_t)d * 3 <= (nw > nn ? nw : nn);
}

void text_near(struct buf *out, const char *wanted, const char *const *names,
	       size_t n)
{
	struct {
		const char *name;
		unsigned rank;
	} best[NEAR_MAX + 1];
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned rank = 0;
		size_t at = found;

		if (!nearness(wanted, names[i], &rank))
			continue;
		/* Insertion that keeps the given order among equals. */
		for (; at && best[at - 1].rank > rank; at--)
			best[at] = best[at - 1];
		best[at].name = names[i];
		best[at].rank = rank;
		if (found < NEAR_MAX)
			found++;
	}
	for (size_t i = 0; i < found; i++) {
		if (i)
			buf_put(out, ", ", 2);
		text_escape(out, best[i].name, strlen(best[i].name));
	}
}
