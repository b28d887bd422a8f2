/* SPDX-License-Identifier: MIT */
/* The helper's image: its bytes, and how it is recognised. */
#include "fake_docker.h"

#include <fcntl.h>
#include <stdint.h>

static struct sc_err e;

#define OK(call)                                          \
	do {                                              \
		if ((call) < 0)                           \
			fail_msg("%s: %s", #call, e.msg); \
	} while (0)

/* Not a multiple of a tar block. */
static const unsigned char binary[] = "\177ELF an odd number of bytes";

static void built_twice_is_the_same(void **state)
{
	struct buf a = { 0 }, b = { 0 };
	struct digest da, db;

	(void)state;
	OK(image_build(binary, sizeof(binary), &a, &da, &e));
	OK(image_build(binary, sizeof(binary), &b, &db, &e));
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.p, b.p, a.len);
	assert_int_equal(digest_cmp(&da, &db), 0);
	/* Another binary is another layer. */
	OK(image_build(binary, sizeof(binary) - 1, &b, &db, &e));
	assert_int_not_equal(digest_cmp(&da, &db), 0);
	buf_free(&a);
	buf_free(&b);
}

/* Runs cmd with the bytes as its input; its output in out. */
static int filter(const char *cmd, const struct buf *in, char *out, size_t n)
{
	char path[] = "/tmp/snapctl-image-XXXXXX", line[256];
	int fd = mkstemp(path), rc;
	size_t got;
	FILE *f;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, in->p, in->len), (ssize_t)in->len);
	close(fd);
	snprintf(line, sizeof(line), "(%s) <%s", cmd, path);
	f = popen(line, "r");
	assert_non_null(f);
	got = fread(out, 1, n - 1, f);
	out[got] = 0;
	rc = pclose(f);
	unlink(path);
	return rc;
}

static void plain_tar_reads_it(void **state)
{
	struct buf tar = { 0 };
	struct digest d;
	char out[4096], layer[DIGEST_HEX + 1], want[256];

	(void)state;
	OK(image_build(binary, sizeof(binary), &tar, &d, &e));
	digest_hex(&d, layer);
	/* Three members in an order that needs no seeking. */
	assert_int_equal(filter("tar tf - | sed 's/^[0-9a-f]\\{64\\}/ID/'",
				&tar, out, sizeof(out)),
			 0);
	assert_string_equal(out, "ID.json\nlayer.tar\nmanifest.json\n");
	/* The layer's digest is that of the layer. */
	assert_int_equal(filter("tar xOf - layer.tar | sha256sum", &tar, out,
				sizeof(out)),
			 0);
	snprintf(want, sizeof(want), "%s  -\n", layer);
	assert_string_equal(out, want);
	assert_int_equal(
		filter("tar xOf - layer.tar | tar tvf - --numeric-owner"
		       " --full-time --utc",
		       &tar, out, sizeof(out)),
		0);
	assert_non_null(strstr(out, "-rwxr-xr-x 0/0"));
	assert_non_null(strstr(out, "1970-01-01 00:00:00 snapctl-helper\n"));
	assert_int_equal(filter("tar xOf - layer.tar | tar xOf - snapctl-helper"
				" | wc -c",
				&tar, out, sizeof(out)),
			 0);
	assert_int_equal(strtol(out, NULL, 10), sizeof(binary));
	buf_free(&tar);
}

/* What an engine checks: the config names the layer, the manifest the config
 * by its digest. */
static void documents_fit(void **state)
{
	struct buf tar = { 0 };
	struct digest d;
	char out[4096], layer[DIGEST_STR], name[80];
	json_t *doc, *config;

	(void)state;
	OK(image_build(binary, sizeof(binary), &tar, &d, &e));
	digest_str(&d, layer);
	assert_int_equal(
		filter("tar xOf - manifest.json", &tar, out, sizeof(out)), 0);
	doc = json_loads(out, 0, NULL);
	assert_non_null(doc);
	assert_int_equal(json_array_size(doc), 1);
	snprintf(name, sizeof(name), "%s",
		 json_string_value(
			 json_object_get(json_array_get(doc, 0), "Config")));
	json_decref(doc);
	assert_int_equal(strlen(name), 64 + 5);
	snprintf(out, sizeof(out), "tar xOf - %s | sha256sum", name);
	{
		char cmd[256], sum[256];

		snprintf(cmd, sizeof(cmd), "%.200s", out);
		assert_int_equal(filter(cmd, &tar, sum, sizeof(sum)), 0);
		assert_memory_equal(sum, name, 64);
		snprintf(cmd, sizeof(cmd), "tar xOf - %.80s", name);
		assert_int_equal(filter(cmd, &tar, out, sizeof(out)), 0);
	}
	config = json_loads(out, 0, NULL);
	assert_non_null(config);
	assert_string_equal(
		json_string_value(json_array_get(
			json_object_get(json_object_get(config, "rootfs"),
					"diff_ids"),
			0)),
		layer);
	assert_string_equal(
		json_string_value(json_array_get(
			json_object_get(json_object_get(config, "config"),
					"Entrypoint"),
			0)),
		"/snapctl-helper");
	assert_string_equal(json_string_value(json_object_get(config, "os")),
			    "linux");
	json_decref(config);
	buf_free(&tar);
}

/* -- recognising it ------------------------------------------------------- */

static char *right_layer(void)
{
	struct buf tar = { 0 };
	struct digest d;
	char s[DIGEST_STR];

	OK(image_build(binary, sizeof(binary), &tar, &d, &e));
	buf_free(&tar);
	digest_str(&d, s);
	return strdup(s);
}

static void absent_is_loaded_once(void **state)
{
	struct docker d;
	char *id;
	bool loaded;

	(void)state;
	fake_init(&d);
	OK(image_ensure(&d, binary, sizeof(binary), &id, &loaded, &e));
	assert_true(loaded);
	assert_string_equal(id, "sha256:loaded");
	free(id);
	OK(image_ensure(&d, binary, sizeof(binary), &id, &loaded, &e));
	assert_false(loaded);
	free(id);
	OK(image_ensure(&d, binary, sizeof(binary), &id, NULL, &e));
	free(id);
	assert_int_equal(d.loads, 1);
	fake_done(&d);
}

/* E5: the label alone makes no image ours. */
static void others_with_the_label_are_passed_over(void **state)
{
	char *layer = right_layer();
	struct docker d;
	char *id;
	bool loaded;

	(void)state;
	fake_init(&d);
	d.nimages = 4;
	d.images[0] = (struct fake_image){ "other",
					   { "sha256:00" },
					   { "/snapctl-helper" } };
	d.images[1] = (struct fake_image){ "on-top",
					   { layer, "sha256:00" },
					   { "/snapctl-helper" } };
	d.images[2] = (struct fake_image){ "entry", { layer }, { "/bin/sh" } };
	d.images[3] = (struct fake_image){ "more",
					   { layer },
					   { "/snapctl-helper", "-x" } };
	OK(image_ensure(&d, binary, sizeof(binary), &id, &loaded, &e));
	assert_true(loaded);
	assert_string_equal(id, "sha256:loaded");
	free(id);
	/* The right one among them is found, whatever its id. */
	d.images[2] = (struct fake_image){ "right",
					   { layer },
					   { "/snapctl-helper" } };
	free(d.loaded_layer);
	d.loaded_layer = NULL;
	OK(image_ensure(&d, binary, sizeof(binary), &id, &loaded, &e));
	assert_false(loaded);
	assert_string_equal(id, "right");
	free(id);
	fake_done(&d);
	free(layer);
}

static void bare_images_are_not_ours(void **state)
{
	struct docker d;
	char *id;
	bool loaded;

	(void)state;
	fake_init(&d);
	d.nimages = 1;
	d.images[0] = (struct fake_image){ "bare", { NULL }, { NULL } };
	OK(image_ensure(&d, binary, sizeof(binary), &id, &loaded, &e));
	assert_true(loaded);
	free(id);
	fake_done(&d);
}

static void an_engine_that_hides_it_is_an_error(void **state)
{
	struct docker d;
	char *id;

	(void)state;
	fake_init(&d);
	d.load_hides = true;
	assert_int_equal(
		image_ensure(&d, binary, sizeof(binary), &id, NULL, &e), -1);
	assert_int_equal(e.code, SC_EENGINE);
	assert_int_equal(d.loads, 1);
	fake_done(&d);
}

static void another_architecture_is_refused(void **state)
{
	struct docker d;
	char *id;

	(void)state;
	fake_init(&d);
	d.info.arch = (char *)"pdp11";
	assert_int_equal(
		image_ensure(&d, binary, sizeof(binary), &id, NULL, &e), -1);
	assert_int_equal(e.code, SC_EREFUSED);
	assert_non_null(strstr(e.msg, "pdp11"));
	assert_int_equal(d.loads, 0);
	fake_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(built_twice_is_the_same),
		cmocka_unit_test(plain_tar_reads_it),
		cmocka_unit_test(documents_fit),
		cmocka_unit_test(absent_is_loaded_once),
		cmocka_unit_test(others_with_the_label_are_passed_over),
		cmocka_unit_test(bare_images_are_not_ours),
		cmocka_unit_test(an_engine_that_hides_it_is_an_error),
		cmocka_unit_test(another_architecture_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
