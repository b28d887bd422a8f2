/* SPDX-License-Identifier: MIT */
/* The typed calls: what they ask, and what they make of the answers. */
#include "docker/fake.h"

/* What is answered to one request; the first row that fits. */
struct row {
	const char *method, *path;
	int status;
	const char *body;
};

static bool table(struct fake_req *rq, void *arg)
{
	const struct row *r = arg;
	char body[sizeof(rq->path) + 64];

	if (fake_usual(rq))
		return true;
	for (; r->method; r++)
		if (fake_is(rq, r->method, r->path))
			return fake_answer(rq, r->status, "", r->body);
	snprintf(body, sizeof(body), "{\"message\":\"unexpected %s %s\"}",
		 rq->method, rq->path);
	return fake_answer(rq, 599, "", body);
}

struct fixture {
	struct fake f;
	struct docker *d;
	struct sc_err err;
};

static void open_fake(struct fixture *x, const struct row *rows)
{
	memset(&x->err, 0, sizeof(x->err));
	fake_start(&x->f, table, (void *)(uintptr_t)rows);
	assert_int_equal(docker_open(x->f.host, NULL, &x->d, &x->err), 0);
}

static void close_fake(struct fixture *x)
{
	docker_close(x->d);
	fake_stop(&x->f);
}

/* The message of what should not have failed is worth more than -1 != 0. */
static void ok(struct fixture *x, int rc)
{
	if (rc < 0)
		fail_msg("%s", x->err.msg);
}

/* -- containers --------------------------------------------------------- */

static const char db[] =
	"{\"Id\":\"c1\",\"Name\":\"/shop_db_1\",\"Image\":\"sha256:aa\","
	"\"RestartCount\":2,\"State\":{\"Status\":\"running\",\"ExitCode\":0,"
	"\"OOMKilled\":true,\"StartedAt\":\"2026-01-31T12:00:00.1Z\","
	"\"FinishedAt\":\"0001-01-01T00:00:00Z\",\"Health\":{\"Status\":"
	"\"starting\",\"Log\":[]}},\"HostConfig\":{\"AutoRemove\":true,"
	"\"RestartPolicy\":{\"Name\":\"always\",\"MaximumRetryCount\":0},"
	"\"NetworkMode\":\"shop_default\",\"PidMode\":\"\",\"IpcMode\":"
	"\"private\",\"VolumesFrom\":[\"c0:ro\"],\"Links\":null},"
	"\"Config\":{\"Image\":\"postgres:15\",\"StopSignal\":\"SIGINT\","
	"\"StopTimeout\":90,\"Labels\":{\"a\":\"1\",\"b\":\"\"},"
	"\"Healthcheck\":{\"Test\":[\"CMD\"],\"Interval\":5000000000,"
	"\"Timeout\":1000000000,\"StartPeriod\":3,\"Retries\":4}},"
	"\"Mounts\":[{\"Type\":\"volume\",\"Name\":\"shop_data\",\"Source\":"
	"\"/v/shop_data/_data\",\"Destination\":\"/var/lib/data\",\"Driver\":"
	"\"local\",\"RW\":true},{\"Type\":\"volume\",\"Name\":\"0123456789abcd"
	"ef0123456789abcdef0123456789abcdef0123456789abcdef\",\"Destination\":"
	"\"/x\",\"RW\":false},{\"Type\":\"bind\",\"Source\":\"/etc\","
	"\"Destination\":\"/e\",\"RW\":false}]}";

static const struct row inspect_rows[] = {
	{ "GET", "/v1.41/containers/c1/json", 200, db },
	{ "GET", "/v1.41/containers/a%2Fb/json", 404,
	  "{\"message\":\"No such container: a/b\"}" },
	{ "GET", "/v1.41/containers/bare/json", 200, "{\"Id\":\"c2\"}" },
	{ "GET", "/v1.41/containers/bad1/json", 200, "[]" },
	{ "GET", "/v1.41/containers/bad2/json", 200, "{\"Id\":7}" },
	{ "GET", "/v1.41/containers/bad3/json", 200,
	  "{\"Id\":\"x\",\"Config\":{\"Labels\":{\"a\":1}}}" },
	{ "GET", "/v1.41/containers/bad4/json", 200,
	  "{\"Id\":\"x\",\"Mounts\":[7]}" },
	{ "GET", "/v1.41/containers/bad5/json", 200,
	  "{\"Id\":\"x\",\"State\":\"running\"}" },
	{ "GET", "/v1.41/containers/bad6/json", 200,
	  "{\"Id\":\"x\",\"HostConfig\":{\"Links\":[null]}}" },
	{ "GET", "/v1.41/containers/bad7/json", 200, "{}" },
	{ "GET", "/v1.41/containers/bad8/json", 200, "" },
	{ 0 },
};

static void test_inspect(void **state)
{
	struct docker_container *c;
	struct fixture x;

	(void)state;
	open_fake(&x, inspect_rows);
	assert_int_equal(docker_container_inspect(x.d, "c1", &c, &x.err), 1);
	assert_string_equal(c->id, "c1");
	assert_string_equal(c->name, "shop_db_1");
	assert_string_equal(c->image_id, "sha256:aa");
	assert_string_equal(c->image_ref, "postgres:15");
	assert_int_equal(c->state, DOCKER_RUNNING);
	assert_int_equal(c->health, DOCKER_STARTING);
	assert_int_equal(c->exit_code, 0);
	assert_true(c->oom_killed);
	assert_true(c->auto_remove);
	assert_int_equal(c->restart_count, 2);
	assert_string_equal(c->started_at, "2026-01-31T12:00:00.1Z");
	assert_string_equal(c->finished_at, "0001-01-01T00:00:00Z");
	assert_string_equal(c->restart_policy, "always");
	assert_string_equal(c->stop_signal, "SIGINT");
	assert_int_equal(c->stop_timeout, 90);
	assert_int_equal(c->health_interval, 5000000000);
	assert_int_equal(c->health_timeout, 1000000000);
	assert_int_equal(c->health_start_period, 3);
	assert_int_equal(c->health_retries, 4);
	assert_string_equal(c->network_mode, "shop_default");
	assert_string_equal(c->ipc_mode, "private");
	assert_string_equal(c->volumes_from[0], "c0:ro");
	assert_null(c->volumes_from[1]);
	assert_null(c->links[0]);
	assert_int_equal(c->nlabels, 2);
	assert_string_equal(docker_label(c->labels, c->nlabels, "a"), "1");
	assert_string_equal(docker_label(c->labels, c->nlabels, "b"), "");
	assert_null(docker_label(c->labels, c->nlabels, "c"));
	assert_int_equal(c->nmounts, 3);
	assert_string_equal(c->mounts[0].type, "volume");
	assert_string_equal(c->mounts[0].name, "shop_data");
	assert_string_equal(c->mounts[0].source, "/v/shop_data/_data");
	assert_string_equal(c->mounts[0].target, "/var/lib/data");
	assert_string_equal(c->mounts[0].driver, "local");
	assert_true(c->mounts[0].rw);
	assert_false(c->mounts[0].anonymous);
	assert_true(c->mounts[1].anonymous);
	assert_false(c->mounts[1].rw);
	assert_string_equal(c->mounts[2].name, "");
	docker_container_free(c);
	close_fake(&x);
}

static void test_inspect_odd(void **state)
{
	struct docker_container *c;
	struct fixture x;

	(void)state;
	open_fake(&x, inspect_rows);
	assert_int_equal(docker_container_inspect(x.d, "a/b", &c, &x.err), 0);
	assert_null(c);
	assert_int_equal(docker_container_inspect(x.d, "bare", &c, &x.err), 1);
	assert_int_equal(c->state, DOCKER_OTHER);
	assert_int_equal(c->health, DOCKER_NO_HEALTH);
	assert_int_equal(c->stop_timeout, -1);
	assert_string_equal(c->restart_policy, "no");
	assert_string_equal(c->name, "");
	assert_null(c->volumes_from[0]);
	docker_container_free(c);
	for (int i = 1; i <= 8; i++) {
		char id[8];

		snprintf(id, sizeof(id), "bad%d", i);
		assert_int_equal(docker_container_inspect(x.d, id, &c, &x.err),
				 -1);
		assert_int_equal(x.err.code, SC_EPROTO);
		assert_null(c);
	}
	assert_int_equal(docker_container_inspect(x.d, "", &c, &x.err), -1);
	assert_int_equal(x.err.code, SC_ENOTFOUND);
	assert_int_equal(docker_container_inspect(x.d, "else", &c, &x.err), -1);
	assert_int_equal(x.err.code, SC_EENGINE);
	close_fake(&x);
}

static void test_lists(void **state)
{
	static const struct row rows[] = {
		{ "GET", "/v1.41/containers/json?all=1&", 200,
		  "[{\"Id\":\"a\"},{\"Id\":\"b\"}]" },
		{ "GET",
		  "/v1.41/containers/json?filters=%7B%22label%22%3A%5B"
		  "%22k%3Dv%22%5D%7D",
		  200, "[]" },
		{ "GET",
		  "/v1.41/containers/json?all=1&filters=%7B%22volume"
		  "%22%3A%5B%22d%5C%22a%22%5D%7D",
		  200, "[{\"Id\":\"c\"}]" },
		{ "GET",
		  "/v1.41/containers/json?all=1&filters=%7B%22label"
		  "%22%3A%5B%22bad%22%5D%7D",
		  200, "[{\"Id\":\"c\"},{}]" },
		{ "GET",
		  "/v1.41/images/json?filters=%7B%22label%22%3A%5B"
		  "%22i%3D1%22%5D%7D",
		  200, "[{\"Id\":\"sha256:1\"}]" },
		{ 0 },
	};
	struct fixture x;
	char **v;

	(void)state;
	open_fake(&x, rows);
	assert_int_equal(docker_container_ids(x.d, true, NULL, &v, &x.err), 0);
	assert_string_equal(v[0], "a");
	assert_string_equal(v[1], "b");
	assert_null(v[2]);
	docker_strv_free(v);
	assert_int_equal(docker_container_ids(x.d, false, "k=v", &v, &x.err),
			 0);
	assert_null(v[0]);
	docker_strv_free(v);
	assert_int_equal(docker_volume_users(x.d, "d\"a", &v, &x.err), 0);
	assert_string_equal(v[0], "c");
	docker_strv_free(v);
	assert_int_equal(docker_container_ids(x.d, true, "bad", &v, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	assert_int_equal(docker_container_ids(x.d, true, "\xff", &v, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EUSAGE);
	assert_int_equal(docker_image_ids(x.d, "i=1", &v, &x.err), 0);
	assert_string_equal(v[0], "sha256:1");
	docker_strv_free(v);
	close_fake(&x);
}

static void test_create(void **state)
{
	static const struct row rows[] = {
		{ "POST", "/v1.41/containers/create?name=ok", 201,
		  "{\"Id\":\"new\",\"Warnings\":[]}" },
		{ "POST", "/v1.41/containers/create?name=taken", 409,
		  "{\"message\":\"Conflict. The container name is taken\"}" },
		{ "POST", "/v1.41/containers/create?name=podman", 500,
		  "{\"message\":\"the container name \\\"podman\\\" is already "
		  "in use\"}" },
		{ "POST", "/v1.41/containers/create?name=noimage", 404,
		  "{\"message\":\"No such image: x\"}" },
		{ "POST", "/v1.41/containers/create?name=noid", 201, "{}" },
		{ 0 },
	};
	json_t *config = json_pack("{s:s}", "Image", "x");
	struct fixture x;
	char *id = NULL;

	(void)state;
	open_fake(&x, rows);
	assert_int_equal(
		docker_container_create(x.d, "ok", config, &id, &x.err), 0);
	assert_string_equal(id, "new");
	free(id);
	assert_int_equal(
		docker_container_create(x.d, "taken", config, &id, &x.err), -1);
	assert_int_equal(x.err.code, SC_ELOCKED);
	assert_string_equal(x.err.msg, "create container taken: Conflict. The "
				       "container name is taken");
	assert_int_equal(
		docker_container_create(x.d, "podman", config, &id, &x.err),
		-1);
	assert_int_equal(x.err.code, SC_ELOCKED);
	assert_int_equal(
		docker_container_create(x.d, "noimage", config, &id, &x.err),
		-1);
	assert_int_equal(x.err.code, SC_ENOTFOUND);
	assert_int_equal(
		docker_container_create(x.d, "noid", config, &id, &x.err), -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	json_decref(config);
	close_fake(&x);
}

static const struct row act_rows[] = {
	{ "POST", "/v1.41/containers/new/start", 204, "" },
	{ "POST", "/v1.41/containers/on/start", 304, "" },
	{ "POST", "/v1.41/containers/gone/start", 404, "{\"message\":\"no\"}" },
	{ "POST", "/v1.41/containers/new/stop", 204, "" },
	{ "GET", "/v1.41/containers/new/json", 200,
	  "{\"Id\":\"new\",\"State\":{\"Status\":\"exited\"}}" },
	{ "POST", "/v1.41/containers/new/stop?t=0", 304, "" },
	{ "POST", "/v1.41/containers/new/pause", 409,
	  "{\"message\":\"not "
	  "running\"}" },
	{ "POST", "/v1.41/containers/p/pause", 409,
	  "{\"message\":\"already\"}" },
	{ "GET", "/v1.41/containers/p/json", 200,
	  "{\"Id\":\"p\",\"State\":{\"Status\":\"paused\"}}" },
	{ "POST", "/v1.41/containers/r/unpause", 500,
	  "{\"cause\":\"is not "
	  "paused\"}" },
	{ "GET", "/v1.41/containers/r/json", 200,
	  "{\"Id\":\"r\",\"State\":{\"Status\":\"running\"}}" },
	{ "POST", "/v1.41/containers/p/unpause", 204, "" },
	{ "DELETE", "/v1.41/containers/new?force=1", 204, "" },
	{ "DELETE", "/v1.41/containers/run", 409,
	  "{\"message\":\"You cannot "
	  "remove a running container\"}" },
	{ "DELETE", "/v1.41/containers/gone", 404, "{\"message\":\"no\"}" },
	{ "DELETE", "/v1.41/containers/auto", 409,
	  "{\"message\":\"removal of "
	  "container auto is already in progress\"}" },
	{ "POST", "/v1.41/containers/auto/wait?condition=removed", 200,
	  "{\"StatusCode\":0}" },
	{ "POST", "/v1.41/containers/new/wait", 200,
	  "{\"StatusCode\":137,"
	  "\"Error\":null}" },
	{ "POST", "/v1.41/containers/r/wait", 200, "{\"StatusCode\":\"1\"}" },
	{ "POST", "/v1.41/containers/moved/start", 301, "" },
	{ 0 },
};

static void test_act(void **state)
{
	struct fixture x;
	int code = -1;

	(void)state;
	open_fake(&x, act_rows);
	ok(&x, docker_container_start(x.d, "new", &x.err));
	ok(&x, docker_container_start(x.d, "on", &x.err));
	assert_int_equal(docker_container_start(x.d, "gone", &x.err), -1);
	assert_int_equal(x.err.code, SC_ENOTFOUND);
	assert_string_equal(x.err.msg, "start container gone: no");
	assert_int_equal(docker_container_start(x.d, "moved", &x.err), -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	ok(&x, docker_container_stop(x.d, "new", -1, &x.err));
	ok(&x, docker_container_stop(x.d, "new", 0, &x.err));
	assert_int_equal(docker_container_pause(x.d, "new", &x.err), -1);
	assert_string_equal(x.err.msg, "pause container new: not running");
	ok(&x, docker_container_pause(x.d, "p", &x.err));
	ok(&x, docker_container_unpause(x.d, "r", &x.err));
	ok(&x, docker_container_unpause(x.d, "p", &x.err));
	ok(&x, docker_container_remove(x.d, "new", true, &x.err));
	assert_int_equal(docker_container_remove(x.d, "run", false, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EENGINE);
	assert_int_equal(docker_container_remove(x.d, "gone", false, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_ENOTFOUND);
	ok(&x, docker_container_remove(x.d, "auto", false, &x.err));
	ok(&x, docker_container_wait(x.d, "new", &code, &x.err));
	assert_int_equal(code, 137);
	assert_int_equal(docker_container_wait(x.d, "r", &code, &x.err), -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	close_fake(&x);
}

/* -- volumes ------------------------------------------------------------ */

#define VOLUME                                                                 \
	"{\"Name\":\"v\",\"Driver\":\"local\",\"Mountpoint\":\"/m\","          \
	"\"CreatedAt\":\"2026\",\"Scope\":\"local\",\"Labels\":{\"k\":\"v\"}," \
	"\"Options\":null}"

static const struct row volume_rows[] = {
	{ "GET", "/v1.41/volumes?", 200,
	  "{\"Volumes\":[" VOLUME "],\"Warnings\":null}" },
	{ "GET", "/v1.41/volumes?filters=%7B%22label%22%3A%5B%22none%22%5D%7D",
	  200, "{\"Volumes\":null}" },
	{ "GET", "/v1.41/volumes?filters=%7B%22label%22%3A%5B%22bad%22%5D%7D",
	  200, "{\"Volumes\":[{}]}" },
	{ "GET", "/v1.41/volumes/v", 200, VOLUME },
	{ "GET", "/v1.41/volumes/none", 404, "{\"message\":\"no such\"}" },
	{ "POST", "/v1.41/volumes/create", 201, VOLUME },
	{ "DELETE", "/v1.41/volumes/v", 204, "" },
	{ "DELETE", "/v1.41/volumes/used", 409, "{\"message\":\"in use\"}" },
	{ 0 },
};

static void test_volumes(void **state)
{
	struct docker_volume *v;
	struct fixture x;
	size_t n = 9;

	(void)state;
	open_fake(&x, volume_rows);
	assert_int_equal(docker_volume_list(x.d, NULL, &v, &n, &x.err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(v->name, "v");
	assert_string_equal(v->driver, "local");
	assert_string_equal(v->mountpoint, "/m");
	assert_string_equal(v->created_at, "2026");
	assert_string_equal(v->scope, "local");
	assert_string_equal(docker_label(v->labels, v->nlabels, "k"), "v");
	assert_int_equal(v->noptions, 0);
	docker_volumes_free(v, n);
	assert_int_equal(docker_volume_list(x.d, "none", &v, &n, &x.err), 0);
	assert_int_equal(n, 0);
	docker_volumes_free(v, n);
	assert_int_equal(docker_volume_list(x.d, "bad", &v, &n, &x.err), -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	assert_int_equal(docker_volume_inspect(x.d, "v", &v, &x.err), 1);
	assert_int_equal(docker_volume_create(x.d, v, &x.err), -1);
	assert_int_equal(x.err.code, SC_EREFUSED);
	docker_volumes_free(v, 1);
	assert_int_equal(docker_volume_inspect(x.d, "none", &v, &x.err), 0);
	ok(&x, docker_volume_remove(x.d, "v", &x.err));
	assert_int_equal(docker_volume_remove(x.d, "used", &x.err), -1);
	assert_string_equal(x.err.msg, "remove volume used: in use");
	close_fake(&x);
}

/* Keeps what was sent. */
static bool keep_body(struct fake_req *rq, void *arg)
{
	if (fake_usual(rq))
		return true;
	if (strcmp(rq->method, "GET") == 0)
		return fake_answer(rq, 404, "", "{\"message\":\"no\"}");
	snprintf(arg, 512, "%.511s", rq->body);
	assert_non_null(
		strcasestr(rq->head, "\r\nContent-Type: application/json\r\n"));
	return fake_answer(rq, 201, "", "{}");
}

static void test_volume_create(void **state)
{
	struct docker_label opt[] = { { (char *)"type", (char *)"tmpfs" },
				      { (char *)"o", (char *)"size=1m" } };
	struct docker_label lab[] = { { (char *)"a.b", (char *)"" } };
	struct docker_volume v = { .name = (char *)"n/1",
				   .driver = (char *)"local",
				   .options = opt,
				   .noptions = 2,
				   .labels = lab,
				   .nlabels = 1 };
	char got[512] = "";
	struct fake f;
	struct docker *d;
	struct sc_err err;
	json_t *a, *b;

	(void)state;
	fake_start(&f, keep_body, got);
	assert_int_equal(docker_open(f.host, NULL, &d, &err), 0);
	assert_int_equal(docker_volume_create(d, &v, &err), 0);
	a = json_loads(got, 0, NULL);
	b = json_pack("{s:s,s:s,s:{s:s,s:s},s:{s:s}}", "Name", "n/1", "Driver",
		      "local", "DriverOpts", "type", "tmpfs", "o", "size=1m",
		      "Labels", "a.b", "");
	assert_true(json_equal(a, b));
	json_decref(a);
	json_decref(b);
	docker_close(d);
	fake_stop(&f);
}

/* -- images ------------------------------------------------------------- */

static void test_images(void **state)
{
	static const struct row rows[] = {
		{ "GET", "/v1.41/images/reg/x%3A1/json", 200,
		  "{\"Id\":\"sha256:1\",\"Architecture\":\"amd64\","
		  "\"RepoTags\":[\"reg/x:1\"],\"RepoDigests\":null,"
		  "\"RootFS\":{\"Type\":\"layers\",\"Layers\":[\"sha256:l\"]},"
		  "\"Config\":{\"Entrypoint\":[\"/h\",\"-x\"]}}" },
		{ "GET", "/v1.41/images/none/json", 404, "{}" },
		{ "POST", "/v1.41/images/load?quiet=1", 200, "" },
		{ 0 },
	};
	struct docker_image *i;
	struct fixture x;

	(void)state;
	open_fake(&x, rows);
	assert_int_equal(docker_image_inspect(x.d, "reg/x:1", &i, &x.err), 1);
	assert_string_equal(i->id, "sha256:1");
	assert_string_equal(i->arch, "amd64");
	assert_string_equal(i->tags[0], "reg/x:1");
	assert_null(i->digests[0]);
	assert_string_equal(i->layers[0], "sha256:l");
	assert_string_equal(i->entrypoint[1], "-x");
	assert_null(i->entrypoint[2]);
	docker_image_free(i);
	assert_int_equal(docker_image_inspect(x.d, "none", &i, &x.err), 0);
	assert_int_equal(docker_image_inspect(x.d, "", &i, &x.err), 0);
	assert_int_equal(docker_image_inspect(x.d, "../../info", &i, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_ENOTFOUND);
	close_fake(&x);
}

static const struct {
	int status;
	const char *body;
	enum sc_code code;
	const char *says;
} loads[] = {
	{ 200, "", SC_OK, NULL },
	{ 200, "{\"stream\":\"Loaded image: x\\n\"}\r\n", SC_OK, NULL },
	{ 200, "{\"status\":\"a\"}\n{\"stream\":\"b\"}\n", SC_OK, NULL },
	{ 200,
	  "{\"status\":\"a\"}{\"errorDetail\":{\"message\":\"m\"},"
	  "\"error\":\"archive/tar: invalid\"}",
	  SC_EENGINE, "load image: archive/tar: invalid" },
	{ 200, "{\"status\":\"a\"} garbage", SC_EPROTO, "not JSON" },
	{ 200, "[1]", SC_EPROTO, "not JSON" },
	{ 200, "{\"status\":", SC_EPROTO, "not JSON" },
	{ 500, "{\"message\":\"no space left on device\"}", SC_EENGINE,
	  "load image: no space left on device" },
};

static bool load(struct fake_req *rq, void *arg)
{
	size_t i = *(size_t *)arg;

	if (fake_usual(rq))
		return true;
	assert_int_equal(rq->len, 300000);
	assert_non_null(strcasestr(rq->head,
				   "\r\nContent-Type: application/x-tar\r\n"));
	return fake_answer(rq, loads[i].status, "", loads[i].body);
}

static void test_load(void **state)
{
	static char tar[300000];
	struct fake f;
	struct docker *d;
	struct sc_err err;
	size_t i = 0;

	(void)state;
	fake_start(&f, load, &i);
	assert_int_equal(docker_open(f.host, NULL, &d, &err), 0);
	for (; i < sizeof(loads) / sizeof(*loads); i++) {
		int rc = docker_image_load(d, tar, sizeof(tar), &err);

		assert_int_equal(rc, loads[i].code ? -1 : 0);
		if (rc == 0)
			continue;
		assert_int_equal(err.code, loads[i].code);
		assert_non_null(strstr(err.msg, loads[i].says));
	}
	docker_close(d);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inspect),
		cmocka_unit_test(test_inspect_odd),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_create),
		cmocka_unit_test(test_act),
		cmocka_unit_test(test_volumes),
		cmocka_unit_test(test_volume_create),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_load),
	};

	return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
