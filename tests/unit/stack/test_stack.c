/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <snapctl/stack/stack.h>

#include "fake_docker.h"

#define ANON "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct test {
	struct docker d;
	struct stack_options o;
	struct notes notes;
	struct stack *s;
	struct sc_err err;
	char dir[64];
};

static struct test t;

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	fake_init(&t.d);
	notes_init(&t.notes);
	unsetenv("COMPOSE_PROJECT_NAME");
	t.o.project = "shop";
	return 0;
}

static int tear_down(void **state)
{
	char cmd[128];

	(void)state;
	stack_free(t.s);
	notes_free(&t.notes);
	fake_done(&t.d);
	if (*t.dir) {
		snprintf(cmd, sizeof(cmd), "rm -rf %s", t.dir);
		return system(cmd);
	}
	return 0;
}

/* db with a volume, web that depends on it, and a stranger. */
static void shop(void)
{
	struct fake_container *db = fake_add(&t.d, "shop-db-1", "shop", "db");
	struct fake_container *web =
		fake_add(&t.d, "shop-web-1", "shop", "web");

	fake_label(db, "com.docker.compose.depends_on", "");
	fake_label(web, "com.docker.compose.depends_on",
		   "db:service_healthy:false,gone:service_started");
	fake_mount(db, "volume", "shop_data", "/data", true);
	fake_volume(&t.d, "shop_data", "shop", "data");
	fake_add(&t.d, "stranger", NULL, NULL);
}

static void resolve(void)
{
	int rc = stack_resolve(&t.d, &t.o, &t.notes, &t.s, &t.err);

	if (rc < 0)
		fail_msg("%s", t.err.msg);
}

static void resolve_fails(enum sc_code code, const char *part)
{
	assert_int_equal(stack_resolve(&t.d, &t.o, &t.notes, &t.s, &t.err), -1);
	assert_null(t.s);
	assert_int_equal(t.err.code, code);
	if (!strstr(t.err.msg, part))
		fail_msg("\"%s\" lacks \"%s\"", t.err.msg, part);
}

static void check_is(enum sc_code code, const char *part)
{
	struct sc_err err = { 0 };

	stack_check(t.s, &t.o, &err);
	assert_int_equal(err.code, code);
	if (!strstr(err.msg, part))
		fail_msg("\"%s\" lacks \"%s\"", err.msg, part);
}

static struct stack_container *con(const char *name)
{
	for (size_t i = 0; i < t.s->ncontainers; i++)
		if (strcmp(t.s->containers[i].c->name, name) == 0)
			return &t.s->containers[i];
	return NULL;
}

static struct stack_volume *vol(const char *name)
{
	for (size_t i = 0; i < t.s->nvolumes; i++)
		if (strcmp(t.s->volumes[i].name, name) == 0)
			return &t.s->volumes[i];
	return NULL;
}

static bool noted(enum note_kind kind, const char *part)
{
	for (size_t i = 0; i < t.notes.n; i++)
		if (t.notes.v[i].kind == kind &&
		    strstr(t.notes.v[i].text, part))
			return true;
	return false;
}

static const char *order(void)
{
	static char out[512];
	size_t *v = NULL, n = 0;

	out[0] = 0;
	assert_int_equal(stack_stop_order(t.s, &v, &n, &t.err), 0);
	for (size_t i = 0; i < n; i++) {
		strcat(out, i ? " " : "");
		strcat(out, t.s->containers[v[i]].c->name);
	}
	free(v);
	return out;
}

/* -- discovery ------------------------------------------------------------ */

static void test_shop(void **state)
{
	(void)state;
	shop();
	resolve();
	assert_int_equal(t.s->ncontainers, 2);
	assert_int_equal(t.s->nvolumes, 1);
	assert_true(vol("shop_data")->selected);
	assert_string_equal(vol("shop_data")->targets[0], "db:/data");
	assert_true(con("shop-db-1")->stop);
	assert_int_equal(con("shop-web-1")->ndeps, 1);
	assert_int_equal(con("shop-web-1")->deps[0].condition, DEP_HEALTHY);
	assert_string_equal(order(), "shop-web-1 shop-db-1");
	check_is(SC_OK, "");
}

static void test_unknown_names(void **state)
{
	static const char *const wrong[] = { "dta", NULL };

	(void)state;
	shop();
	t.o.project = "shpo";
	resolve_fails(SC_ENOTFOUND, "near: shop;");
	t.o.project = "SHOP";
	resolve_fails(SC_ENOTFOUND, "near: shop;");
	t.o.project = "shop";
	t.o.volumes = wrong;
	resolve_fails(SC_ENOTFOUND, "near: data");
	t.o.volumes = NULL;
	t.o.exclude_volumes = wrong;
	resolve_fails(SC_ENOTFOUND, "--exclude-volume dta");
	/* A bind mount does not make a stack known. */
	t.o.exclude_volumes = NULL;
	t.o.project = "nothing";
	t.o.binds = (const char *const[]){ "/tmp", NULL };
	resolve_fails(SC_ENOTFOUND, "no stack nothing");
}

static void test_environment_and_directory(void **state)
{
	char cwd[256];

	(void)state;
	shop();
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	t.o.project = NULL;
	resolve_fails(SC_EUSAGE, "there are: shop");
	fake_label(&t.d.c[0], "com.docker.compose.project.working_dir", cwd);
	resolve();
	assert_string_equal(t.s->name, "shop");
	assert_string_equal(t.s->working_dir, cwd);
	stack_free(t.s);
	t.s = NULL;
	fake_label(fake_add(&t.d, "x", "other", "x"),
		   "com.docker.compose.project.working_dir", cwd);
	resolve_fails(SC_EUSAGE, "name one: other, shop");
	setenv("COMPOSE_PROJECT_NAME", "other", 1);
	resolve();
	assert_string_equal(t.s->name, "other");
}

static void test_all_names(void **state)
{
	char **names = NULL;

	(void)state;
	assert_int_equal(stack_names(&t.d, &names, &t.err), 0);
	assert_null(names[0]);
	docker_strv_free(names);
	shop();
	fake_volume(&t.d, "blog_data", "blog", "data");
	assert_int_equal(stack_names(&t.d, &names, &t.err), 0);
	assert_string_equal(names[0], "blog");
	assert_string_equal(names[1], "shop");
	assert_null(names[2]);
	docker_strv_free(names);
}

static void test_down(void **state)
{
	(void)state;
	fake_volume(&t.d, "shop_data", "shop", "data");
	fake_volume(&t.d, "outside", NULL, NULL);
	t.o.known_volumes =
		(const char *const[]){ "shop_data", "outside", "lost", NULL };
	resolve();
	assert_true(t.s->down);
	assert_int_equal(t.s->nvolumes, 3);
	assert_true(vol("shop_data")->selected);
	assert_true(vol("outside")->selected);
	assert_true(vol("lost")->missing);
	assert_false(vol("lost")->selected);
	assert_true(noted(NOTE_WARN, "lost"));
	assert_int_equal(t.notes.warnings, 1);
}

static void test_missing_is_selected_for_restore(void **state)
{
	(void)state;
	shop();
	t.o.for_restore = true;
	t.o.known_volumes = (const char *const[]){ "lost", NULL };
	resolve();
	assert_true(vol("lost")->missing);
	assert_true(vol("lost")->selected);
	assert_int_equal(t.notes.warnings, 0);
}

static void test_adhoc(void **state)
{
	(void)state;
	shop();
	fake_mount(&t.d.c[2], "volume", "free", "/f", true);
	fake_volume(&t.d, "free", NULL, NULL);
	t.o.project = NULL;
	t.o.volumes = (const char *const[]){ "shop_data", "free", NULL };
	resolve();
	assert_true(t.s->adhoc);
	assert_string_equal(t.s->name, "shop_data");
	assert_int_equal(t.s->nvolumes, 2);
	assert_true(con("stranger")->stop);
	assert_true(con("shop-web-1")->stop);
	check_is(SC_OK, "");
	stack_free(t.s);
	t.s = NULL;
	t.o.project = "mine";
	resolve();
	assert_true(t.s->adhoc);
	assert_string_equal(t.s->name, "mine");
	stack_free(t.s);
	t.s = NULL;
	t.o.project = NULL;
	t.o.volumes = (const char *const[]){ "/usr/share/", NULL };
	resolve();
	assert_string_equal(t.s->name, "share");
	assert_true(vol("/usr/share")->selected);
	stack_free(t.s);
	t.s = NULL;
	t.o.volumes = (const char *const[]){ "fre", NULL };
	resolve_fails(SC_ENOTFOUND, "near: free");
}

static void test_chosen_volumes(void **state)
{
	(void)state;
	shop();
	fake_volume(&t.d, "shop_more", "shop", "more");
	t.o.volumes = (const char *const[]){ "more", NULL };
	resolve();
	assert_true(vol("shop_more")->selected);
	assert_false(vol("shop_data")->selected);
	assert_string_equal(vol("shop_data")->left_out,
			    "not named by --volume");
	/* Nobody has to stop for what is not taken. */
	assert_false(con("shop-db-1")->stop);
	stack_free(t.s);
	t.s = NULL;
	t.o.volumes = NULL;
	t.o.exclude_volumes = (const char *const[]){ "db:/data", NULL };
	resolve();
	assert_false(vol("shop_data")->selected);
	assert_true(vol("shop_more")->selected);
}

static void test_anonymous(void **state)
{
	(void)state;
	shop();
	fake_mount(&t.d.c[0], "volume", ANON, "/cache", true);
	fake_volume(&t.d, ANON, NULL, NULL);
	resolve();
	assert_int_equal(vol(ANON)->kind, STACK_ANON);
	assert_ptr_equal(stack_volume_anon(t.s, "db", 1, "/cache"), vol(ANON));
	assert_null(stack_volume_anon(t.s, "db", 2, "/cache"));
	assert_ptr_equal(stack_volume_find(t.s, "db:/cache"), vol(ANON));
	assert_ptr_equal(stack_volume_find(t.s, "data"), vol("shop_data"));
	assert_null(stack_volume_find(t.s, "nope"));
}

static void test_labels(void **state)
{
	struct fake_container *c;
	struct docker_volume *v;

	(void)state;
	shop();
	c = fake_add(&t.d, "shop-tmp-1", "shop", "tmp");
	fake_label(c, "io.snapctl.exclude", "true");
	fake_mount(c, "volume", "shop_tmp", "/t", true);
	fake_mount(c, "volume", "shop_data", "/d", true);
	fake_volume(&t.d, "shop_tmp", "shop", "tmp");
	v = fake_volume(&t.d, "shop_scratch", "shop", "scratch");
	v->labels[v->nlabels++] =
		(struct docker_label){ (char *)"io.snapctl.exclude",
				       (char *)"true" };
	c = fake_add(&t.d, "shop-keep-1", "shop", "keep");
	fake_label(c, "io.snapctl.stop", "false");
	fake_mount(c, "volume", "shop_data", "/d", true);
	resolve();
	assert_false(vol("shop_tmp")->selected);
	assert_false(vol("shop_scratch")->selected);
	assert_true(con("shop-tmp-1")->stop); /* still writes to data */
	assert_false(con("shop-keep-1")->stop);
	check_is(SC_OK, "");
	stack_free(t.s);
	t.s = NULL;
	/* What is replaced is not left in use. */
	t.o.for_restore = true;
	resolve();
	assert_true(con("shop-keep-1")->stop);
}

static void test_hostile_names(void **state)
{
	(void)state;
	shop();
	t.o.project = "sh\x1b[2Jop";
	resolve_fails(SC_ENOTFOUND, "sh\\x1b[2Jop");
}

/* -- bind mounts ---------------------------------------------------------- */

static const char *in_dir(const char *name, mode_t mode)
{
	static char path[8][128];
	static unsigned next;
	char *p = path[next++ % 8];
	int fd;

	if (!*t.dir) {
		strcpy(t.dir, "/tmp/snapctl-stack.XXXXXX");
		assert_non_null(mkdtemp(t.dir));
	}
	snprintf(p, 128, "%s/%s", t.dir, name);
	if (S_ISDIR(mode)) {
		assert_int_equal(mkdir(p, 0700), 0);
	} else if (mode) {
		fd = open(p, O_CREAT | O_WRONLY, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
	return p;
}

static void test_binds_by_rule(void **state)
{
	const char *data, *src, *ro, *file, *conf, *sub;
	struct fake_container *db;

	(void)state;
	shop();
	db = &t.d.c[0];
	data = in_dir("data", S_IFDIR);
	sub = in_dir("data/sub", S_IFDIR);
	src = in_dir("src", S_IFDIR);
	in_dir("src/.git", S_IFDIR);
	ro = in_dir("ro", S_IFDIR);
	file = in_dir("file", S_IFREG);
	conf = in_dir("conf", S_IFDIR);
	in_dir("conf/prod.yml", S_IFREG);
	fake_label(db, "com.docker.compose.project.working_dir", t.dir);
	fake_label(db, "com.docker.compose.project.config_files",
		   "conf/prod.yml,/etc/x.yml");
	fake_mount(db, "bind", data, "/b1", true);
	fake_mount(db, "bind", src, "/b2", true);
	fake_mount(db, "bind", ro, "/b3", false);
	fake_mount(db, "bind", file, "/b4", true);
	fake_mount(db, "bind", conf, "/b5", true);
	fake_mount(db, "bind", t.dir, "/b6", true);
	fake_mount(&t.d.c[1], "bind", sub, "/b1", true);
	resolve();
	assert_string_equal(t.s->config_files[1], "/etc/x.yml");
	assert_true(vol(data)->selected);
	assert_int_equal(vol(data)->kind, STACK_BIND);
	assert_string_equal(vol(sub)->left_out,
			    "it is part of another bind mount");
	assert_string_equal(vol(src)->left_out, "it holds a .git");
	assert_string_equal(vol(ro)->left_out, "it is mounted read-only");
	assert_string_equal(vol(file)->left_out, "it is not a directory");
	assert_string_equal(vol(conf)->left_out, "it holds a compose file");
	assert_string_equal(vol(t.dir)->left_out,
			    "it is not beneath the project's directory");
	assert_true(noted(NOTE_INFO, "--bind"));
	assert_int_equal(t.notes.warnings, 0);
}

static void test_binds_by_name(void **state)
{
	const char *a, *b, *link;

	(void)state;
	shop();
	a = in_dir("a", S_IFDIR);
	b = in_dir("b", S_IFDIR);
	link = in_dir("link", 0);
	assert_int_equal(symlink("/usr", link), 0);
	fake_mount(&t.d.c[0], "bind", a, "/a", true);
	fake_mount(&t.d.c[0], "bind", b, "/b", true);
	fake_mount(&t.d.c[0], "bind", "/proc/sys", "/p", true);
	fake_mount(&t.d.c[0], "bind", link, "/l", true);
	fake_label(&t.d.c[0], "com.docker.compose.project.working_dir", "/");
	fake_label(&t.d.c[1], "com.docker.compose.project.working_dir", t.dir);
	fake_label(&t.d.c[1], "io.snapctl.bind", "./b/");
	t.o.binds = (const char *const[]){ a, NULL };
	resolve();
	assert_true(vol(a)->selected);
	assert_true(vol(b)->selected);
	assert_string_equal(vol("/proc/sys")->left_out, "it is the system's");
	stack_free(t.s);
	t.s = NULL;
	fake_label(&t.d.c[0], "com.docker.compose.project.working_dir", t.dir);
	resolve();
	assert_string_equal(vol(link)->left_out,
			    "it leads out of the project's directory");
	stack_free(t.s);
	t.s = NULL;
	t.o.binds = (const char *const[]){ "/proc", NULL };
	resolve_fails(SC_EREFUSED, "system");
	t.o.binds = (const char *const[]){ "/no/such", NULL };
	resolve_fails(SC_ENOTFOUND, "/no/such");
}

static void test_remote_engine_is_not_looked_at(void **state)
{
	const char *data;

	(void)state;
	shop();
	t.d.info.local = false;
	data = in_dir("data", S_IFDIR);
	fake_label(&t.d.c[0], "com.docker.compose.project.working_dir", t.dir);
	fake_mount(&t.d.c[0], "bind", data, "/d", true);
	resolve();
	assert_false(vol(data)->selected);
	stack_free(t.s);
	t.s = NULL;
	t.o.binds = (const char *const[]){ data, NULL };
	resolve();
	assert_true(vol(data)->selected);
}

static void test_repository_inside(void **state)
{
	char repo[160];

	(void)state;
	shop();
	fake_mount(&t.d.c[0], "bind", in_dir("data", S_IFDIR), "/d", true);
	fake_label(&t.d.c[0], "com.docker.compose.project.working_dir", t.dir);
	snprintf(repo, sizeof(repo), "%s/data/backup/repo", t.dir);
	t.o.repo = repo;
	resolve();
	snprintf(repo, sizeof(repo), "%s/data", t.dir);
	assert_true(vol(repo)->selected);
	assert_string_equal(vol(repo)->repo_below, "backup/repo");
	stack_free(t.s);
	t.s = NULL;
	resolve();
	assert_false(vol(repo)->selected);
}

/* -- who stops, refusals -------------------------------------------------- */

static void test_who_stops(void **state)
{
	struct fake_container *c;

	(void)state;
	shop();
	c = fake_add(&t.d, "shop-reader-1", "shop", "reader");
	fake_label(c, "com.docker.compose.depends_on", "");
	fake_mount(c, "volume", "shop_data", "/d", false);
	c = fake_add(&t.d, "shop-side-1", "shop", "side");
	fake_label(c, "com.docker.compose.depends_on", "");
	c->network_mode = "container:shop-web-1";
	c = fake_add(&t.d, "shop-idle-1", "shop", "idle");
	fake_label(c, "com.docker.compose.depends_on", "");
	c = fake_add(&t.d, "shop-off-1", "shop", "off");
	fake_label(c, "com.docker.compose.depends_on", "db");
	c->state = DOCKER_EXITED;
	resolve();
	assert_false(con("shop-reader-1")->stop);
	assert_true(con("shop-side-1")->stop);
	assert_false(con("shop-idle-1")->stop);
	assert_false(con("shop-off-1")->stop);
	assert_string_equal(order(), "shop-side-1 shop-web-1 shop-db-1");
	stack_free(t.s);
	t.s = NULL;
	t.o.for_restore = true;
	resolve();
	assert_true(con("shop-reader-1")->stop);
	stack_free(t.s);
	t.s = NULL;
	t.o.for_restore = false;
	t.o.no_stop = true;
	resolve();
	assert_string_equal(order(), "");
}

static void test_replicas(void **state)
{
	struct fake_container *c;

	(void)state;
	shop();
	c = fake_add(&t.d, "shop-db-2", "shop", "db");
	fake_label(c, "com.docker.compose.container-number", "2");
	fake_label(c, "com.docker.compose.depends_on", "");
	fake_mount(c, "volume", "shop_data", "/d", true);
	resolve();
	assert_int_equal(con("shop-web-1")->ndeps, 2);
	assert_string_equal(order(), "shop-web-1 shop-db-1 shop-db-2");
}

static void test_cycle(void **state)
{
	(void)state;
	shop();
	fake_label(&t.d.c[0], "com.docker.compose.depends_on", "mid");
	fake_label(fake_add(&t.d, "shop-mid-1", "shop", "mid"),
		   "com.docker.compose.depends_on", "web");
	resolve();
	check_is(SC_EREFUSED, "in a circle: shop-");
	check_is(SC_EREFUSED, "shop-web-1 -> shop-db-1");
	check_is(SC_EREFUSED, "shop-db-1 -> shop-mid-1");
}

static void test_sharing(void **state)
{
	struct fake_container *c;

	(void)state;
	shop();
	c = fake_add(&t.d, "foreign", "blog", "x");
	fake_mount(c, "volume", "shop_data", "/d", true);
	resolve();
	check_is(SC_EREFUSED, "container foreign");
	check_is(SC_EREFUSED, "--stop-sharing");
	assert_false(con("foreign")->stop);
	t.o.ignore_sharing = true;
	check_is(SC_OK, "");
	t.o.ignore_sharing = false;
	stack_free(t.s);
	t.s = NULL;
	t.o.stop_sharing = true;
	resolve();
	assert_true(con("foreign")->stop);
	check_is(SC_OK, "");
	/* Reading beside a snapshot is nobody's harm. */
	stack_free(t.s);
	t.s = NULL;
	t.o.stop_sharing = false;
	c->mounts[0].rw = false;
	resolve();
	check_is(SC_OK, "");
	stack_free(t.s);
	t.s = NULL;
	t.o.for_restore = true;
	resolve();
	check_is(SC_EREFUSED, "container foreign");
}

/* The helper of another run is neither shared with nor stopped. */
static void test_helper_of_another_run(void **state)
{
	struct fake_container *c;

	(void)state;
	shop();
	c = fake_add(&t.d, "snapctl-other", NULL, NULL);
	fake_label(c, "io.snapctl.helper", "1");
	fake_label(c, "io.snapctl.stack", "other");
	fake_label(c, "io.snapctl.command", "restore");
	fake_mount(c, "volume", "shop_data", "/v/0", true);
	t.o.stop_sharing = true;
	resolve();
	assert_false(con("snapctl-other")->stop);
	check_is(SC_ELOCKED, "held by snapctl restore of stack other");
	stack_free(t.s);
	t.s = NULL;
	t.o.stop_sharing = false;
	t.o.ignore_sharing = true;
	t.o.no_stop = true;
	resolve();
	check_is(SC_ELOCKED, "container snapctl-other");
	/* Of the same name: told when the helper's container is made. */
	stack_free(t.s);
	t.s = NULL;
	t.o.ignore_sharing = t.o.no_stop = false;
	fake_label(c, "io.snapctl.stack", "shop");
	resolve();
	check_is(SC_OK, "");
}

static void test_other_refusals(void **state)
{
	struct fake_container *c;

	(void)state;
	shop();
	c = fake_add(&t.d, "guest", NULL, NULL);
	c->network_mode = "container:shop-db-1";
	resolve();
	check_is(SC_EREFUSED, "container guest");
	stack_free(t.s);
	t.s = NULL;
	c->state = DOCKER_EXITED;
	t.d.c[0].auto_remove = true;
	resolve();
	check_is(SC_EREFUSED, "--allow-rm");
	t.o.allow_rm = true;
	check_is(SC_OK, "");
	stack_free(t.s);
	t.s = NULL;
	fake_label(&t.d.c[0], "com.docker.swarm.task.id", "x");
	resolve();
	check_is(SC_EREFUSED, "--no-stop");
	t.o.no_stop = true;
	check_is(SC_OK, "");
}

static void test_oneoff(void **state)
{
	struct fake_container *c;

	(void)state;
	shop();
	c = fake_add(&t.d, "shop-db-run-1", "shop", "db");
	fake_label(c, "com.docker.compose.oneoff", "True");
	fake_mount(c, "volume", "shop_data", "/d", false);
	resolve();
	check_is(SC_EREFUSED, "shop-db-run-1");
	check_is(SC_EREFUSED, "--stop-oneoff");
	stack_free(t.s);
	t.s = NULL;
	c->mounts[0].rw = true;
	t.o.stop_oneoff = true;
	resolve();
	assert_true(con("shop-db-run-1")->stop);
	assert_true(con("shop-db-run-1")->no_restart);
	check_is(SC_OK, "");
}

/* -- compose 1.x ---------------------------------------------------------- */

static void test_compose_file(void **state)
{
	FILE *f;

	(void)state;
	shop();
	for (int i = 0; i < 2; i++) {
		fake_label(&t.d.c[i], "com.docker.compose.depends_on", "");
		for (int l = 0; l < 16; l++)
			if (t.d.c[i].labels[l][0] &&
			    !strcmp(t.d.c[i].labels[l][0],
				    "com.docker.compose.depends_on"))
				t.d.c[i].labels[l][0] = "x.none";
	}
	fake_add(&t.d, "shop-idle-1", "shop", "idle");
	f = fopen(in_dir("a.yml", S_IFREG), "w");
	assert_non_null(f);
	fputs("services: {web: {depends_on: {db: {condition: "
	      "service_healthy}}}}\n",
	      f);
	fclose(f);
	fake_label(&t.d.c[1], "com.docker.compose.project.working_dir", t.dir);
	fake_label(&t.d.c[1], "com.docker.compose.project.config_files",
		   "a.yml");
	resolve();
	assert_int_equal(con("shop-web-1")->deps[0].condition, DEP_HEALTHY);
	assert_false(con("shop-idle-1")->stop);
	stack_free(t.s);
	t.s = NULL;
	/* Unreadable: what has no data stops first, and it is said. */
	fake_label(&t.d.c[1], "com.docker.compose.project.config_files",
		   "a.yml,b.yml");
	resolve();
	assert_true(noted(NOTE_INFO, "b.yml"));
	assert_true(con("shop-idle-1")->stop);
	assert_string_equal(order(), "shop-idle-1 shop-web-1 shop-db-1");
	stack_free(t.s);
	t.s = NULL;
	t.d.info.local = false;
	resolve();
	assert_true(noted(NOTE_INFO, "remote"));
	assert_string_equal(order(), "shop-idle-1 shop-web-1 shop-db-1");
}

/* db shares the namespace of one without data: no circle is made up. */
static void test_unreadable_without_circle(void **state)
{
	struct fake_container *db, *vpn;

	(void)state;
	db = fake_add(&t.d, "shop-db-1", "shop", "db");
	vpn = fake_add(&t.d, "shop-vpn-1", "shop", "vpn");
	(void)vpn;
	db->network_mode = "container:shop-vpn-1";
	fake_mount(db, "volume", "shop_data", "/d", true);
	fake_volume(&t.d, "shop_data", "shop", "data");
	resolve();
	check_is(SC_OK, "");
	assert_string_equal(order(), "shop-db-1");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_shop),
		T(test_unknown_names),
		T(test_environment_and_directory),
		T(test_all_names),
		T(test_down),
		T(test_missing_is_selected_for_restore),
		T(test_adhoc),
		T(test_chosen_volumes),
		T(test_anonymous),
		T(test_labels),
		T(test_hostile_names),
		T(test_binds_by_rule),
		T(test_binds_by_name),
		T(test_remote_engine_is_not_looked_at),
		T(test_repository_inside),
		T(test_who_stops),
		T(test_replicas),
		T(test_cycle),
		T(test_sharing),
		T(test_helper_of_another_run),
		T(test_other_refusals),
		T(test_oneoff),
		T(test_compose_file),
		T(test_unreadable_without_circle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
