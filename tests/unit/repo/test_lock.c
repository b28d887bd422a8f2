/* SPDX-License-Identifier: MIT */
/* Locks between processes: waiting, giving up, dying. */
#include "fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* A process that holds a lock until it is killed or told to let go. */
struct holder {
	pid_t pid;
	int tell; /* closing it makes the holder unlock and exit */
};

static struct holder hold(struct place *p, const char *name,
			  enum repo_lock_mode mode)
{
	int ready[2], tell[2];
	struct holder h;
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	h.pid = fork();
	assert_true(h.pid >= 0);
	if (h.pid == 0) {
		struct repo *r = NULL;
		struct repo_lock *l = NULL;

		close(tell[1]);
		if (repo_open(p->repo, REPO_WRITE, &r, NULL) < 0 ||
		    repo_lock(r, name, mode, "create", 0, NULL, &l, NULL) < 0)
			_exit(1);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		(void)!read(tell[0], &c, 1);
		repo_unlock(l);
		repo_close(r);
		_exit(0);
	}
	close(ready[1]);
	close(tell[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	h.tell = tell[1];
	return h;
}

static void reap(struct holder *h, int sig)
{
	int status;

	close(h->tell);
	assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
	if (sig)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == sig);
	else
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_busy_names_holder(void **state)
{
	struct place *p = *state;
	struct holder h = hold(p, "stack-web", LOCK_EXCLUSIVE);
	struct repo *r = open_repo(p, REPO_WRITE);
	struct repo_lock *l = NULL;
	struct sc_err err = { 0 };
	char pid[32], host[256];

	assert_int_equal(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", 0, NULL,
				   &l, &err),
			 -1);
	assert_int_equal(err.code, SC_ELOCKED);
	snprintf(pid, sizeof(pid), "pid %d on ", (int)h.pid);
	assert_int_equal(gethostname(host, sizeof(host)), 0);
	assert_non_null(strstr(err.msg, pid));
	assert_non_null(strstr(err.msg, host));
	assert_non_null(strstr(err.msg, "(create, since 20"));
	assert_int_equal(
		repo_lock(r, "stack-web", LOCK_SHARED, "x", 0, NULL, &l, &err),
		-1);
	assert_int_equal(err.code, SC_ELOCKED);
	/* another stack's lock is another lock */
	OK(repo_lock(r, "stack-mail", LOCK_EXCLUSIVE, "x", 0, NULL, &l,
		     &failure));
	repo_unlock(l);
	reap(&h, 0);
	OK(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", 0, NULL, &l,
		     &failure));
	repo_unlock(l);
	repo_close(r);
}

static void test_shared(void **state)
{
	struct place *p = *state;
	struct holder h = hold(p, "repository", LOCK_SHARED);
	struct repo *r = open_repo(p, REPO_WRITE);
	struct repo_lock *l = NULL, *m = NULL;
	struct sc_err err = { 0 };

	OK(repo_lock(r, "repository", LOCK_SHARED, "x", 0, NULL, &l, &failure));
	assert_int_equal(repo_lock(r, "repository", LOCK_EXCLUSIVE, "prune", 0,
				   NULL, &m, &err),
			 -1);
	assert_int_equal(err.code, SC_ELOCKED);
	repo_unlock(l);
	reap(&h, 0);
	OK(repo_lock(r, "repository", LOCK_EXCLUSIVE, "prune", 0, NULL, &m,
		     &failure));
	repo_unlock(m);
	repo_close(r);
}

static void test_dead_holder(void **state)
{
	struct place *p = *state;
	struct holder h = hold(p, "stack-web", LOCK_EXCLUSIVE);
	struct repo *r = open_repo(p, REPO_WRITE);
	struct repo_lock *l = NULL;
	auto_buf struct buf text = { 0 };
	char pid[32];

	assert_int_equal(kill(h.pid, SIGKILL), 0);
	reap(&h, SIGKILL);
	snprintf(pid, sizeof(pid), "pid %d\n", (int)h.pid);
	read_text(p, "locks/stack-web", &text);
	assert_non_null(strstr((char *)text.p, pid));
	OK(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "restore", 0, NULL, &l,
		     &failure));
	read_text(p, "locks/stack-web", &text);
	assert_null(strstr((char *)text.p, pid));
	assert_non_null(strstr((char *)text.p, "command restore\n"));
	repo_unlock(l);
	read_text(p, "locks/stack-web", &text);
	assert_int_equal(text.len, 0);
	repo_close(r);
}

/* Lets go, or dies, when the waiter waits: its child is there. */
struct after {
	struct holder h;
	int sig;
};

static bool has_child(void)
{
	char path[64], text[64];
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children",
		 (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	return strchr(text, ' ') && strchr(text, ' ')[1];
}

static void *end_holder(void *arg)
{
	struct after *a = arg;

	/* Two children: the holder, and the one that waits. */
	for (int i = 0; i < 5000 && !has_child(); i++)
		poll(NULL, 0, 1);
	if (a->sig)
		kill(a->h.pid, a->sig);
	else
		close(a->h.tell);
	return NULL;
}

static void wait_for(struct place *p, int sig, int wait)
{
	struct repo *r = open_repo(p, REPO_WRITE);
	struct after a = { hold(p, "stack-web", LOCK_EXCLUSIVE), sig };
	struct repo_lock *l = NULL, *m = NULL;
	struct sc_err err = { 0 };
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, end_holder, &a), 0);
	OK(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", wait, NULL, &l,
		     &failure));
	pthread_join(t, NULL);
	/* It is ours, not the child's that waited for it. */
	assert_int_equal(
		repo_lock(r, "stack-web", LOCK_SHARED, "x", 0, NULL, &m, &err),
		-1);
	assert_int_equal(err.code, SC_ELOCKED);
	repo_unlock(l);
	OK(repo_lock(r, "stack-web", LOCK_SHARED, "x", 0, NULL, &m, &failure));
	repo_unlock(m);
	if (!sig)
		a.h.tell = open("/dev/null", O_RDONLY | O_CLOEXEC);
	reap(&a.h, sig);
	repo_close(r);
}

static void test_wait(void **state)
{
	wait_for(*state, 0, -1);
	wait_for(*state, 0, 60);
}

static void test_wait_dead(void **state)
{
	wait_for(*state, SIGKILL, 60);
}

static void test_timeout(void **state)
{
	struct place *p = *state;
	struct holder h = hold(p, "stack-web", LOCK_EXCLUSIVE);
	struct repo *r = open_repo(p, REPO_WRITE);
	struct repo_lock *l = NULL;
	struct sc_err err = { 0 };
	double t0 = now(), took;

	assert_int_equal(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", 1, NULL,
				   &l, &err),
			 -1);
	took = now() - t0;
	assert_int_equal(err.code, SC_ELOCKED);
	assert_non_null(strstr(err.msg, "(create, since"));
	assert_true(took >= 0.99 && took < 10);
	/* nobody waits any more: the next one gets it at once */
	reap(&h, 0);
	OK(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", 0, NULL, &l,
		     &failure));
	repo_unlock(l);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child left */
	repo_close(r);
}

static void *cancel_later(void *arg)
{
	for (int i = 0; i < 5000 && !has_child(); i++)
		poll(NULL, 0, 1);
	cancel_set(arg, SIGTERM);
	return NULL;
}

static void test_cancel(void **state)
{
	struct place *p = *state;
	struct holder h = hold(p, "stack-web", LOCK_EXCLUSIVE);
	struct repo *r = open_repo(p, REPO_WRITE);
	struct repo_lock *l = NULL;
	struct sc_err err = { 0 };
	struct cancel c;
	pthread_t t;

	OK(cancel_init(&c, &failure));
	assert_int_equal(pthread_create(&t, NULL, cancel_later, &c), 0);
	assert_int_equal(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", -1, &c,
				   &l, &err),
			 -1);
	pthread_join(t, NULL);
	assert_int_equal(err.code, SC_EINTR);
	assert_string_equal(err.msg, "interrupted by SIGTERM");
	cancel_close(&c);
	reap(&h, 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	repo_close(r);
}

static void test_names(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct repo_lock *a = NULL, *b = NULL;
	unsigned before = count_files(p, "locks");
	char longer[2][600];

	OK(repo_lock(r, "stack-../../x", LOCK_EXCLUSIVE, "x", 0, NULL, &a,
		     &failure));
	repo_unlock(a);
	OK(repo_lock(r, "../\n\xff", LOCK_EXCLUSIVE, "x", 0, NULL, &a,
		     &failure));
	repo_unlock(a);
	for (int i = 0; i < 2; i++) {
		memset(longer[i], 'a', sizeof(longer[i]));
		longer[i][sizeof(longer[i]) - 2] = (char)('0' + i);
		longer[i][sizeof(longer[i]) - 1] = 0;
	}
	OK(repo_lock(r, longer[0], LOCK_EXCLUSIVE, "x", 0, NULL, &a, &failure));
	OK(repo_lock(r, longer[1], LOCK_EXCLUSIVE, "x", 0, NULL, &b, &failure));
	repo_unlock(a);
	repo_unlock(b);
	assert_int_equal(count_files(p, "locks"), before + 4);
	repo_close(r);
}

/* Whatever stands in a lock is only shown, and escaped. */
static void test_hostile_content(void **state)
{
	struct place *p = *state;
	struct holder h = hold(p, "stack-web", LOCK_EXCLUSIVE);
	struct repo *r = open_repo(p, REPO_WRITE);
	struct repo_lock *l = NULL;
	struct sc_err err = { 0 };
	char text[4096];

	memset(text, 'p', sizeof(text));
	write_text(p, "locks/stack-web", text, sizeof(text));
	assert_int_equal(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", 0, NULL,
				   &l, &err),
			 -1);
	assert_string_equal(err.msg, "lock \"stack-web\" is held by another "
				     "run of snapctl");
	strcpy(text, "pid \x1b[2J\nhost \xff\ncommand c\nsince s\n");
	write_text(p, "locks/stack-web", text, strlen(text));
	assert_int_equal(repo_lock(r, "stack-web", LOCK_EXCLUSIVE, "x", 0, NULL,
				   &l, &err),
			 -1);
	assert_string_equal(err.msg, "lock \"stack-web\" is held by pid "
				     "\\x1b[2J on \\xff (c, since s)");
	reap(&h, 0);
	repo_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_busy_names_holder),
		TEST(test_shared),
		TEST(test_dead_holder),
		TEST(test_wait),
		TEST(test_wait_dead),
		TEST(test_timeout),
		TEST(test_cancel),
		TEST(test_names),
		TEST(test_hostile_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
