/* SPDX-License-Identifier: MIT */
/* Prints a tree so that two trees are equal exactly if their prints are:
 *
 *   diff <(treesum A) <(treesum B)
 *
 * One line per entry, the root included, siblings by bytes. Fields: path,
 * type, mode, uid:gid, mtime in ns, size, link group (the first path of the
 * inode), device or link target, flags, data extents, SHA-256, xattrs. Names
 * and values are escaped, so any bytes do.
 *
 *   -s  sockets are left out (no snapshot holds them)
 *   -H  holes are not looked at, the hash covers the whole content
 *   -T  times are not looked at
 *   -F  flags are not looked at */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <openssl/evp.h>

static bool skip_sockets, no_holes, no_times, no_flags;

/* Flags that mean something to people; the others are the filesystem's. */
#define FLAGS                                                            \
	(FS_SECRM_FL | FS_UNRM_FL | FS_COMPR_FL | FS_SYNC_FL |           \
	 FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL | \
	 FS_DIRSYNC_FL | FS_TOPDIR_FL | FS_NOCOW_FL | FS_PROJINHERIT_FL)

/* Inodes with several names, and the first of these. */
static struct link {
	dev_t dev;
	ino_t ino;
	char *path;
} * links;
static size_t nlinks;

static void *grow(void *p, size_t n)
{
	p = realloc(p, n);
	if (p == NULL)
		err(1, "memory");
	return p;
}

static void put_escaped(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c <= ' ' || c >= 0x7f || c == '\\')
			printf("\\x%02x", c);
		else
			putchar(c);
	}
}

static const char *first_path(const struct stat *st, const char *path)
{
	for (size_t i = 0; i < nlinks; i++)
		if (links[i].dev == st->st_dev && links[i].ino == st->st_ino)
			return links[i].path;
	links = grow(links, (nlinks + 1) * sizeof(*links));
	links[nlinks].dev = st->st_dev;
	links[nlinks].ino = st->st_ino;
	links[nlinks].path = strdup(path);
	if (links[nlinks].path == NULL)
		err(1, "memory");
	return links[nlinks++].path;
}

static void hash_range(EVP_MD_CTX *md, int fd, off_t from, off_t to,
		       const char *path)
{
	static char block[1 << 20];

	while (from < to) {
		size_t want = sizeof(block);
		ssize_t n;

		if ((off_t)want > to - from)
			want = (size_t)(to - from);
		n = pread(fd, block, want, from);
		if (n <= 0)
			err(1, "read %s", path);
		if (EVP_DigestUpdate(md, block, (size_t)n) != 1)
			errx(1, "SHA-256");
		from += n;
	}
}

/* Data extents and the hash of what is in them. */
static void put_content(int fd, off_t size, const char *path)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char sum[32];
	off_t at = 0;

	if (md == NULL || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
		errx(1, "SHA-256");
	printf(" data=");
	if (no_holes) {
		hash_range(md, fd, 0, size, path);
		at = size;
	}
	while (at < size) {
		off_t data = lseek(fd, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0 || (hole = lseek(fd, data, SEEK_HOLE)) < 0)
			err(1, "seek %s", path);
		if (data > 0 || hole < size)
			printf("%jd-%jd,", (intmax_t)data, (intmax_t)hole);
		hash_range(md, fd, data, hole, path);
		at = hole;
	}
	if (EVP_DigestFinal_ex(md, sum, NULL) != 1)
		errx(1, "SHA-256");
	EVP_MD_CTX_free(md);
	printf(" sha256=");
	for (size_t i = 0; i < sizeof(sum); i++)
		printf("%02x", sum[i]);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_xattrs(int fd, const char *path)
{
	char self[64], *list, **names = NULL, *value = grow(NULL, 1 << 16);
	size_t n = 0;
	ssize_t len;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	list = grow(NULL, 1 << 16);
	len = listxattr(self, list, 1 << 16);
	if (len < 0 && errno != ENOTSUP)
		err(1, "xattrs of %s", path);
	for (char *p = list; len > 0 && p < list + len; p += strlen(p) + 1) {
		names = grow(names, (n + 1) * sizeof(*names));
		names[n++] = p;
	}
	if (n > 0)
		qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		len = getxattr(self, names[i], value, 1 << 16);
		if (len < 0)
			err(1, "xattr of %s", path);
		putchar(' ');
		put_escaped(names[i], strlen(names[i]));
		putchar('=');
		for (ssize_t k = 0; k < len; k++)
			printf("%02x", (unsigned char)value[k]);
	}
	free(names);
	free(list);
	free(value);
}

static char type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return 'f';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	case S_IFSOCK:
		return 's';
	default:
		return '?';
	}
}

static void tree(int dir, const char *name, const char *path);

static void children(int fd, const char *path)
{
	DIR *d = fdopendir(fd);
	char **names = NULL;
	size_t n = 0;
	struct dirent *e;

	if (d == NULL)
		err(1, "open %s", path);
	while ((errno = 0, e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		names = grow(names, (n + 1) * sizeof(*names));
		names[n] = strdup(e->d_name);
		if (names[n++] == NULL)
			err(1, "memory");
	}
	if (errno != 0)
		err(1, "read %s", path);
	if (n > 0)
		qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(path) + strlen(names[i]) + 2;
		char *below = grow(NULL, len);

		snprintf(below, len, "%s/%s", path, names[i]);
		tree(dirfd(d), names[i], below);
		free(below);
		free(names[i]);
	}
	free(names);
	closedir(d);
}

static void tree(int dir, const char *name, const char *path)
{
	int at = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int fd = -1, flags = 0;
	char target[4097];
	struct stat st;

	if (at < 0 || fstat(at, &st) != 0)
		err(1, "open %s", path);
	if (S_ISSOCK(st.st_mode) && skip_sockets) {
		close(at);
		return;
	}
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			err(1, "open %s", path);
		if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0)
			flags = 0;
	}
	put_escaped(path, strlen(path));
	printf(" %c %04o %ju:%ju", type_of(st.st_mode), st.st_mode & 07777,
	       (uintmax_t)st.st_uid, (uintmax_t)st.st_gid);
	if (!no_times)
		printf(" mtime=%jd.%09ld", (intmax_t)st.st_mtim.tv_sec,
		       st.st_mtim.tv_nsec);
	if (!S_ISDIR(st.st_mode) && st.st_nlink > 1) {
		printf(" links=%ju:", (uintmax_t)st.st_nlink);
		path = first_path(&st, path);
		put_escaped(path, strlen(path));
	}
	if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		printf(" dev=%u:%u", major(st.st_rdev), minor(st.st_rdev));
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(at, "", target, sizeof(target));

		if (n < 0)
			err(1, "readlink %s", path);
		printf(" target=");
		put_escaped(target, (size_t)n);
	}
	if (!no_flags && (flags & FLAGS) != 0)
		printf(" flags=%x", flags & FLAGS);
	if (S_ISREG(st.st_mode)) {
		printf(" size=%jd", (intmax_t)st.st_size);
		put_content(fd, st.st_size, path);
		close(fd);
	}
	put_xattrs(at, path);
	putchar('\n');
	close(at);
	if (S_ISDIR(st.st_mode))
		children(fd, path);
}

int main(int argc, char **argv)
{
	struct rlimit lim;
	int opt;

	while ((opt = getopt(argc, argv, "sHTF")) != -1) {
		switch (opt) {
		case 's':
			skip_sockets = true;
			break;
		case 'H':
			no_holes = true;
			break;
		case 'T':
			no_times = true;
			break;
		case 'F':
			no_flags = true;
			break;
		default:
			errx(2, "usage: treesum [-sHTF] DIR");
		}
	}
	if (argc - optind != 1)
		errx(2, "usage: treesum [-sHTF] DIR");
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
	tree(AT_FDCWD, argv[optind], ".");
	if (fflush(stdout) != 0)
		err(1, "write");
	return 0;
}
