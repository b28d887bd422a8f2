/* SPDX-License-Identifier: MIT */
#include <snapctl/helper/image.h>

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#if defined(__x86_64__)
#define IMAGE_ARCH "amd64"
#elif defined(__aarch64__)
#define IMAGE_ARCH "arm64"
#elif defined(__riscv) && __riscv_xlen == 64
#define IMAGE_ARCH "riscv64"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define IMAGE_ARCH "ppc64le"
#elif defined(__s390x__)
#define IMAGE_ARCH "s390x"
#elif defined(__arm__)
#define IMAGE_ARCH "arm"
#elif defined(__i386__)
#define IMAGE_ARCH "386"
#else
#error "name this architecture as container engines do"
#endif

static la_ssize_t to_buf(struct archive *a, void *arg, const void *p, size_t n)
{
	struct buf *b = arg;

	(void)a;
	buf_put(b, p, n);
	return b->failed ? -1 : (la_ssize_t)n;
}

static int tar_open(struct archive **out, struct buf *to, struct sc_err *err)
{
	struct archive *a = archive_write_new();

	if (!a)
		return sc_oom(err, "archive");
	if (archive_write_set_format_ustar(a) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(a, 0) != ARCHIVE_OK ||
	    archive_write_open(a, to, NULL, to_buf, NULL) != ARCHIVE_OK) {
		sc_fail(err, SC_EIO, 0, "start the helper image: %s",
			archive_error_string(a));
		archive_write_free(a);
		return -1;
	}
	*out = a;
	return 0;
}

static int tar_add(struct archive *a, const char *name, mode_t mode,
		   const void *p, size_t n, struct sc_err *err)
{
	struct archive_entry *e = archive_entry_new();
	bool ok;

	if (!e)
		return sc_oom(err, "archive entry");
	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, S_ISDIR(mode) ? AE_IFDIR : AE_IFREG);
	archive_entry_set_perm(e, mode & 07777);
	archive_entry_set_size(e, (la_int64_t)n);
	archive_entry_set_mtime(e, 0, 0);
	ok = archive_write_header(a, e) == ARCHIVE_OK &&
	     (!n || archive_write_data(a, p, n) == (la_ssize_t)n);
	archive_entry_free(e);
	return ok ? 0
		  : sc_fail(err, SC_EIO, 0, "pack the helper image: %s",
			    archive_error_string(a));
}

static int tar_close(struct archive *a, int rc, struct sc_err *err)
{
	if (rc == 0 && archive_write_close(a) != ARCHIVE_OK)
		rc = sc_fail(err, SC_EIO, 0, "end the helper image: %s",
			     archive_error_string(a));
	archive_write_free(a);
	return rc;
}

static int build_layer(const void *binary, size_t n, struct buf *out,
		       struct sc_err *err)
{
	struct archive *a = NULL;
	int rc;

	if (tar_open(&a, out, err) < 0)
		return -1;
	rc = tar_add(a, &IMAGE_ENTRYPOINT[1], S_IFREG | 0755, binary, n, err);
	return tar_close(a, rc, err);
}

static int digest_of(const struct buf *b, struct digest *d, struct sc_err *err)
{
	auto_hash struct hash *h = NULL;

	if (hash_new(&h, err) < 0)
		return -1;
	return hash_once(h, b->p, b->len, d, err);
}

int image_build(const void *binary, size_t n, struct buf *tar,
		struct digest *layer, struct sc_err *err)
{
	auto_buf struct buf layer_tar = { 0 }, config = { 0 }, manifest = { 0 };
	char layer_str[DIGEST_STR], config_name[DIGEST_HEX + 6];
	struct digest config_digest;
	struct archive *a = NULL;
	int rc;

	buf_clear(tar);
	if (build_layer(binary, n, &layer_tar, err) < 0 ||
	    digest_of(&layer_tar, layer, err) < 0)
		return -1;
	digest_str(layer, layer_str);
	buf_printf(&config,
		   "{\"architecture\":\"%s\",\"os\":\"linux\","
		   "\"created\":\"1970-01-01T00:00:00Z\","
		   "\"config\":{\"Entrypoint\":[\"%s\"],"
		   "\"Labels\":{\"%s\":\"1\"}},"
		   "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\"]},"
		   "\"history\":[{\"created\":\"1970-01-01T00:00:00Z\","
		   "\"created_by\":\"snapctl\"}]}",
		   IMAGE_ARCH, IMAGE_ENTRYPOINT, IMAGE_LABEL, layer_str);
	if (config.failed || digest_of(&config, &config_digest, err) < 0)
		return -1;
	digest_hex(&config_digest, config_name);
	memcpy(config_name + DIGEST_HEX, ".json", sizeof(".json"));
	buf_printf(&manifest,
		   "[{\"Config\":\"%s\",\"RepoTags\":"
		   "[\"snapctl-helper:%.12s\"],\"Layers\":[\"layer.tar\"]}]",
		   config_name, layer_str + 7);
	if (manifest.failed)
		return sc_oom(err, "helper image");
	if (tar_open(&a, tar, err) < 0)
		return -1;
	rc = tar_add(a, config_name, S_IFREG | 0644, config.p, config.len, err);
	if (rc == 0)
		rc = tar_add(a, "layer.tar", S_IFREG | 0644, layer_tar.p,
			     layer_tar.len, err);
	if (rc == 0)
		rc = tar_add(a, "manifest.json", S_IFREG | 0644, manifest.p,
			     manifest.len, err);
	return tar_close(a, rc, err);
}

static bool is_ours(const struct docker_image *i, const char *layer)
{
	return i->layers && i->layers[0] && !i->layers[1] &&
	       strcmp(i->layers[0], layer) == 0 && i->entrypoint &&
	       i->entrypoint[0] && !i->entrypoint[1] &&
	       strcmp(i->entrypoint[0], IMAGE_ENTRYPOINT) == 0;
}

/* 1 found (*id owned), 0 absent, -1. */
static int find_image(struct docker *d, const char *layer, char **id,
		      struct sc_err *err)
{
	char **ids;
	int found = 0;

	if (docker_image_ids(d, IMAGE_LABEL "=1", &ids, err) < 0)
		return -1;
	for (size_t i = 0; ids[i] && found == 0; i++) {
		struct docker_image *img;
		int rc = docker_image_inspect(d, ids[i], &img, err);

		if (rc < 0)
			found = -1;
		if (rc <= 0)
			continue;
		if (is_ours(img, layer)) {
			*id = strdup(img->id);
			found = *id ? 1 : sc_oom(err, "image id");
		}
		docker_image_free(img);
	}
	docker_strv_free(ids);
	return found;
}

int image_ensure(struct docker *d, const void *binary, size_t n, char **id,
		 bool *loaded, struct sc_err *err)
{
	const struct docker_info *info = docker_info(d);
	auto_buf struct buf tar = { 0 };
	char layer_str[DIGEST_STR];
	struct digest layer;
	int rc;

	if (loaded)
		*loaded = false;
	if (info->arch && *info->arch && strcmp(info->arch, IMAGE_ARCH) != 0)
		return sc_fail(err, SC_EREFUSED, 0,
			       "the engine runs on %s, the helper in this "
			       "snapctl is for %s; use a snapctl built for %s",
			       info->arch, IMAGE_ARCH, info->arch);
	if (image_build(binary, n, &tar, &layer, err) < 0)
		return -1;
	digest_str(&layer, layer_str);
	rc = find_image(d, layer_str, id, err);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (docker_image_load(d, tar.p, tar.len, err) < 0)
		return sc_wrap(err, "load the helper image into the engine");
	if (loaded)
		*loaded = true;
	rc = find_image(d, layer_str, id, err);
	if (rc == 0)
		return sc_fail(err, SC_EENGINE, 0,
			       "the engine took the helper image but does not "
			       "show it (layer %s)",
			       layer_str);
	return rc < 0 ? -1 : 0;
}
