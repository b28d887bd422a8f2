/* SPDX-License-Identifier: MIT */
/* Exit statuses, and where the repository is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../../cmd/snapctl/app.c"

static void every_failure_has_its_status(void **state)
{
	static const struct {
		enum sc_code code;
		int status;
	} t[] = {
		{ SC_OK, 1 },	    { SC_EIO, 1 },	 { SC_ENOMEM, 1 },
		{ SC_EUSAGE, 2 },   { SC_ENOTFOUND, 1 }, { SC_EREFUSED, 1 },
		{ SC_ELOCKED, 5 },  { SC_EINTR, 130 },	 { SC_EENGINE, 1 },
		{ SC_EPROTO, 1 },   { SC_ECORRUPT, 1 },	 { SC_ETORN, 1 },
		{ SC_EPARTIAL, 4 },
	};

	(void)state;
	assert_int_equal(sizeof(t) / sizeof(*t), SC_EPARTIAL + 1);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct sc_err err = { .code = t[i].code };

		assert_int_equal(app_status(&err), t[i].status);
	}
}

static void repo_is(const struct args *args, const char *want)
{
	char *path = NULL;

	assert_int_equal(find_repo(args, &path, NULL), 0);
	assert_string_equal(path, want);
	free(path);
}

static void no_environment(void)
{
	assert_int_equal(unsetenv("SNAPCTL_REPO"), 0);
	assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
	assert_int_equal(unsetenv("HOME"), 0);
}

static void given_repository_wins(void **state)
{
	const char *dir = "/srv/one";
	struct args none = { 0 }, given = { .values = &dir };

	(void)state;
	given.count[OPT_REPO] = 1;
	no_environment();
	assert_int_equal(setenv("SNAPCTL_REPO", "rel/two", 1), 0);
	repo_is(&given, "/srv/one");
	repo_is(&none, "rel/two");
}

static void default_repository(void **state)
{
	struct args none = { 0 };
	struct sc_err err = { 0 };
	char *path = NULL;
	uid_t me = geteuid();

	(void)state;
	no_environment();
	assert_int_equal(setenv("SNAPCTL_REPO", "", 1), 0);
	if (me == 0) {
		repo_is(&none, "/var/lib/snapctl");
		assert_int_equal(seteuid(65534), 0);
	}
	assert_int_equal(find_repo(&none, &path, &err), -1);
	assert_int_equal(err.code, SC_EUSAGE);
	assert_int_equal(setenv("HOME", "/home/u", 1), 0);
	repo_is(&none, "/home/u/.local/state/snapctl");
	assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
	repo_is(&none, "/home/u/.local/state/snapctl");
	assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
	repo_is(&none, "/state/snapctl");
	assert_int_equal(seteuid(me), 0);
}

/* What app.c takes from the parser. */
const char *args_value(const struct args *args, enum opt_id id)
{
	return args->count[id] ? args->values[0] : NULL;
}

bool args_flag(const struct args *args, enum opt_id id)
{
	return args->count[id] > 0;
}

uint64_t args_number(const struct args *args, enum opt_id id, uint64_t fallback)
{
	return args->count[id] ? args->number[id] : fallback;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_failure_has_its_status),
		cmocka_unit_test(given_repository_wins),
		cmocka_unit_test(default_repository),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
