/* SPDX-License-Identifier: MIT */
/* Any bytes as a stream of frames, in reads of changing length (the first
 * byte chooses), and the payload of each as whatever it may be. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/helper/frames.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct stream {
	const uint8_t *p;
	size_t left;
	unsigned step;
};

static ssize_t stream_read(void *arg, void *p, size_t n, struct sc_err *err)
{
	struct stream *s = arg;
	size_t k = n < s->left ? n : s->left;

	(void)err;
	if (s->step && k > s->step)
		k = s->step;
	if (k)
		memcpy(p, s->p, k);
	s->p += k;
	s->left -= k;
	return (ssize_t)k;
}

static int stream_write(void *arg, const void *p, size_t n, struct sc_err *err)
{
	(void)arg;
	(void)p;
	(void)n;
	(void)err;
	return 0;
}

static void look(struct frames *f, struct frame *in)
{
	uint64_t v[11];
	struct sc_err err = { 0 };

	if (in->payload.len > frame_limit(in->type))
		abort();
	for (size_t n = 0; n <= 11; n++)
		(void)frame_varints(in, v, n, &err);
	if (frame_take_fail(in, &err) != -1 || err.code == SC_OK ||
	    err.code > SC_EPARTIAL || !memchr(err.msg, 0, sizeof(err.msg)))
		abort();
	/* What was taken can be sent again. */
	if (frame_send_fail(f, FRAME_NO_VOLUME, &err, &err) < 0 ||
	    frame_send(f, (enum frame_type)in->type, in->volume, NULL, 0,
		       in->payload.p, in->payload.len, &err) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream s = { data + 1, size - 1, size ? data[0] : 0 };
	struct channel ch = { stream_read, stream_write, &s };
	struct frame in = { 0 };
	struct frames f;
	struct sc_err err;

	if (!size)
		return 0;
	frames_init(&f, &ch);
	while (frame_recv(&f, &in, &err) > 0)
		look(&f, &in);
	frame_free(&in);
	frames_destroy(&f);
	return 0;
}
