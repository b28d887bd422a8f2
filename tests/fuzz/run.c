/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target on the files and directories it is given; the fuzzer
 * brings its own main instead. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned done;

static int run_file(int dir, const char *name)
{
	auto_buf struct buf b = { 0 };
	struct sc_err err;

	if (io_read_file(dir, name, 64u << 20, &b, &err) != 1) {
		fprintf(stderr, "cannot read %s\n", name);
		return 1;
	}
	LLVMFuzzerTestOneInput(b.p, b.len);
	done++;
	return 0;
}

static int run(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *e;
	int rc = 0;

	if (!d)
		return run_file(AT_FDCWD, path);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			rc |= run_file(dirfd(d), e->d_name);
	closedir(d);
	return rc;
}

int main(int argc, char **argv)
{
	int rc = 0;

	for (int i = 1; i < argc; i++)
		rc |= run(argv[i]);
	printf("ok %s (%u inputs)\n", argv[0], done);
	return rc || done == 0;
}
