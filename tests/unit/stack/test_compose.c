/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/base/buf.h>
#include <snapctl/stack/stack.h>

static char dir[] = "/tmp/snapctl-compose.XXXXXX";
static char path[64];

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/compose.yml", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void put(const void *p, size_t n)
{
	FILE *f;

	unlink(path);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* "web<db+healthy,cache; db<" */
static const char *read_it(const char *text)
{
	static char out[4096];
	struct compose_service *v = NULL;
	struct sc_err err = { 0 };
	size_t n = 0, at = 0;

	put(text, strlen(text));
	if (compose_read(path, &v, &n, &err) < 0) {
		snprintf(out, sizeof(out), "error %d", err.code);
		return out;
	}
	out[0] = 0;
	for (size_t i = 0; i < n; i++) {
		at += (size_t)snprintf(out + at, sizeof(out) - at, "%s%s<",
				       i ? " " : "", v[i].name);
		for (size_t d = 0; v[i].deps[d]; d++)
			at += (size_t)snprintf(
				out + at, sizeof(out) - at, "%s%s%s",
				d ? "," : "", v[i].deps[d],
				v[i].conditions[d] == DEP_HEALTHY     ? "+h"
				: v[i].conditions[d] == DEP_COMPLETED ? "+c"
								      : "");
	}
	compose_free(v, n);
	return out;
}

static void test_both_spellings(void **state)
{
	(void)state;
	assert_string_equal(read_it("services:\n"
				    "  web:\n"
				    "    depends_on: [db, cache]\n"
				    "  db: {image: x}\n"),
			    "web<db,cache db<");
	assert_string_equal(
		read_it("version: '2.4'\n"
			"services:\n"
			"  web:\n"
			"    depends_on:\n"
			"      db: {condition: service_healthy}\n"
			"      job:\n"
			"        condition: service_completed_successfully\n"
			"      cache: {condition: service_started}\n"
			"      odd: ~\n"),
		"web<db+h,job+c,cache,odd");
}

static void test_other_keys(void **state)
{
	(void)state;
	assert_string_equal(
		read_it("services:\n"
			"  a:\n"
			"    links: ['b:alias', c]\n"
			"    volumes_from: ['d:ro', 'container:e']\n"
			"    network_mode: service:f\n"
			"    pid: 'service:g'\n"
			"    ipc: host\n"
			"    depends_on: {b: {condition: "
			"service_healthy}}\n"),
		"a<b+h,c,d,f,g");
}

static void test_merge_keys(void **state)
{
	(void)state;
	assert_string_equal(read_it("x-base: &base\n"
				    "  depends_on: [db]\n"
				    "services:\n"
				    "  a:\n"
				    "    <<: *base\n"
				    "  b:\n"
				    "    <<: [{links: [q]}, *base]\n"
				    "    network_mode: service:n\n"
				    "  c:\n"
				    "    <<: *base\n"
				    "    depends_on: [own]\n"),
			    "a<db b<db,q,n c<own");
}

static void test_merged_conditions(void **state)
{
	(void)state;
	assert_string_equal(
		read_it("x-d: &d {db: {condition: service_healthy}}\n"
			"services:\n"
			"  a:\n"
			"    depends_on:\n"
			"      <<: *d\n"
			"      e: {condition: service_started}\n"),
		"a<e,db+h");
}

static void test_extends(void **state)
{
	(void)state;
	assert_string_equal(
		read_it("services:\n"
			"  base: {depends_on: [db]}\n"
			"  a: {extends: base}\n"
			"  b: {extends: {service: a}}\n"
			"  c: {extends: {service: a, file: x.yml}}\n"
			"  d: {extends: d}\n"),
		"base<db a<db b<db c< d<");
}

static void test_version_1(void **state)
{
	(void)state;
	assert_string_equal(read_it("web:\n"
				    "  links: [db]\n"
				    "db:\n"
				    "  image: x\n"),
			    "web<db db<");
	assert_string_equal(read_it("version: '3'\n"
				    "volumes: {a: {}}\n"),
			    "");
}

static void test_odd_types(void **state)
{
	(void)state;
	assert_string_equal(read_it("services: [a, b]\n"), "");
	assert_string_equal(read_it(""), "");
	assert_string_equal(read_it("just text\n"), "");
	assert_string_equal(read_it("services:\n"
				    "  a: 5\n"
				    "  b: {depends_on: 7}\n"
				    "  c: {depends_on: [[x], {y: z}, '']}\n"
				    "  ? [k]\n"
				    "  : v\n"),
			    "a< b< c<");
	assert_string_equal(read_it("services: {a: {depends_on: *nothing}}"),
			    "error 10");
	assert_string_equal(read_it("services: {a: [}\n"), "error 10");
}

/* Each level holds the one before nine times: 9^20 if it were followed. */
static void test_alias_bomb(void **state)
{
	struct buf b = { 0 };

	(void)state;
	buf_printf(&b, "a0: &a0 {k: v}\n");
	for (int i = 1; i < 20; i++) {
		buf_printf(&b, "a%d: &a%d {<<: [", i, i);
		for (int k = 0; k < 9; k++)
			buf_printf(&b, "%s*a%d", k ? ", " : "", i - 1);
		buf_printf(&b, "]}\n");
	}
	buf_printf(&b, "services:\n");
	for (int i = 0; i < 100; i++)
		buf_printf(&b, "  s%d: *a19\n", i);
	assert_string_equal(read_it(buf_cstr(&b)), "error 10");
	buf_free(&b);
}

static void test_self_merge(void **state)
{
	(void)state;
	assert_string_equal(read_it("services:\n"
				    "  a: &a\n"
				    "    <<: *a\n"
				    "    links: [b]\n"),
			    "a<b");
}

static void test_deep_nesting(void **state)
{
	struct buf b = { 0 };

	(void)state;
	buf_printf(&b, "services: ");
	for (int i = 0; i < 200000; i++)
		buf_printf(&b, "[");
	assert_string_equal(read_it(buf_cstr(&b)), "error 10");
	buf_free(&b);
}

static void test_bad_files(void **state)
{
	struct compose_service *v = NULL;
	struct sc_err err = { 0 };
	size_t n = 0;
	char *big = malloc((4u << 20) + 1);

	(void)state;
	assert_non_null(big);
	memset(big, '\n', (4u << 20) + 1);
	put(big, (4u << 20) + 1);
	assert_int_equal(compose_read(path, &v, &n, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	free(big);
	unlink(path);
	assert_int_equal(compose_read(path, &v, &n, &err), -1);
	assert_int_equal(err.code, SC_ENOTFOUND);
	/* Would block for ever if it were read as a file. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(compose_read(path, &v, &n, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	assert_int_equal(compose_read(dir, &v, &n, &err), -1);
}

static void test_hostile_bytes(void **state)
{
	static const char nul[] = "services: {\"a\\0b\": {}, c: {}}\n";
	struct compose_service *v = NULL;
	struct sc_err err = { 0 };
	size_t n = 0;

	(void)state;
	assert_string_equal(read_it(nul), "c<");
	put("services:\n  \xff\xfe: {}\n", 20);
	assert_int_equal(compose_read(path, &v, &n, &err), -1);
	put("services:\n  a\0b: {}\n", 20);
	assert_int_equal(compose_read(path, &v, &n, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_spellings),
		cmocka_unit_test(test_other_keys),
		cmocka_unit_test(test_merge_keys),
		cmocka_unit_test(test_merged_conditions),
		cmocka_unit_test(test_extends),
		cmocka_unit_test(test_version_1),
		cmocka_unit_test(test_odd_types),
		cmocka_unit_test(test_alias_bomb),
		cmocka_unit_test(test_self_merge),
		cmocka_unit_test(test_deep_nesting),
		cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_hostile_bytes),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
