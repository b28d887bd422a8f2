/* SPDX-License-Identifier: MIT */
#include <snapctl/archive/tarhdr.h>

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "tarhdr_fix.h"

/* Before the next header libarchive writes the missing data of the entry
 * before as zeros, which are thrown away here. Above this size a fresh writer
 * is cheaper. */
#define FRESH_ABOVE (256u << 10)

#define BLOCK 512u

struct tarhdr {
	struct archive *a;
	struct archive_entry *entry;
	struct buf *to; /* where output goes; NULL: nowhere */
	bool refuse;	/* output fails */
	struct buf name;
	struct buf link;
	struct tarhdr_fix fix;
	bool fresh; /* the writer must be made anew */
};

static la_ssize_t take_output(struct archive *a, void *arg, const void *p,
			      size_t n)
{
	struct tarhdr *h = arg;

	(void)a;
	if (h->refuse)
		return -1;
	if (h->to)
		buf_put(h->to, p, n);
	return (la_ssize_t)n;
}

/* Freeing the writer completes the entry with zeros, any number of them,
 * unless they cannot be written. (archive_write_fail would leak.) */
static void writer_free(struct tarhdr *h)
{
	h->refuse = true;
	archive_write_free(h->a);
	h->a = NULL;
	h->refuse = false;
}

static int writer_new(struct tarhdr *h, struct sc_err *err)
{
	struct archive *a;

	h->to = NULL;
	writer_free(h);
	h->a = a = archive_write_new();
	if (!a)
		return sc_oom(err, "tar writer");
	if (archive_write_set_format_pax(a) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(a, 0) != ARCHIVE_OK ||
	    archive_write_set_format_option(a, "pax", "hdrcharset", "BINARY") !=
		    ARCHIVE_OK ||
	    archive_write_set_format_option(a, "pax", "xattrheader",
					    "SCHILY") != ARCHIVE_OK ||
	    archive_write_open(a, h, NULL, take_output, NULL) != ARCHIVE_OK)
		return sc_fail(err, SC_EIO, 0, "tar writer: %s",
			       archive_error_string(a));
	h->fresh = false;
	return 0;
}

int tarhdr_new(struct tarhdr **out, struct sc_err *err)
{
	struct tarhdr *h = calloc(1, sizeof(*h));

	if (!h)
		return sc_oom(err, "tar headers");
	h->entry = archive_entry_new();
	if (!h->entry || writer_new(h, err) < 0) {
		if (!h->entry)
			sc_oom(err, "tar headers");
		tarhdr_free(h);
		return -1;
	}
	*out = h;
	return 0;
}

void tarhdr_free(struct tarhdr *h)
{
	if (!h)
		return;
	writer_free(h);
	archive_entry_free(h->entry);
	buf_free(&h->name);
	buf_free(&h->link);
	tarhdr_fix_free(&h->fix);
	free(h);
}

/* "./path", "./path/" for a directory. A volume that is a single file has no
 * name of its own. */
static const char *member_name(struct buf *b, const char *path, bool dir)
{
	size_t n = strlen(path);

	buf_clear(b);
	buf_put(b, "./", 2);
	buf_put(b, path, n);
	if (dir && n)
		buf_u8(b, '/');
	if (!dir && !n)
		buf_put(b, "file", 4);
	return buf_cstr(b);
}

/* Name and value point into the blob; libarchive wants the name ended. */
static int set_xattrs(struct archive_entry *ae, const struct tarhdr_entry *e,
		      struct sc_err *err)
{
	struct cur c = cur_of(e->xattrs, e->xattrs_len);
	const unsigned char *name, *value;
	size_t nname, nvalue;
	char ended[256];

	while (cur_left(&c)) {
		name = cur_bytes(&c, 255, &nname);
		value = cur_bytes(&c, SIZE_MAX, &nvalue);
		if (c.bad)
			return sc_fail(err, SC_ECORRUPT, 0,
				       "extended attributes of an entry");
		memcpy(ended, name, nname);
		ended[nname] = 0;
		archive_entry_xattr_add_entry(ae, ended, value, nvalue);
	}
	return 0;
}

/* All hole: one empty extent at the end, or libarchive takes the entry for an
 * ordinary one. */
static void set_sparse(struct archive_entry *ae, const struct tarhdr_entry *e)
{
	for (uint32_t i = 0; i < e->nextents; i++)
		archive_entry_sparse_add_entry(ae,
					       (la_int64_t)e->extents[i].off,
					       (la_int64_t)e->extents[i].len);
	if (e->nextents == 0)
		archive_entry_sparse_add_entry(ae, (la_int64_t)e->e->size, 0);
}

static bool is_sparse(const struct tarhdr_entry *e)
{
	return entry_is_reg(e->e) && (e->e->bits & ENTRY_SPARSE) &&
	       e->e->size > 0 && !e->hardlink;
}

static int set_entry(struct tarhdr *h, const struct tarhdr_entry *e,
		     struct sc_err *err)
{
	const struct entry *x = e->e;
	struct archive_entry *ae = archive_entry_clear(h->entry);
	const char *name = member_name(&h->name, e->path, entry_is_dir(x));
	const char *link = NULL;

	if (e->hardlink)
		link = member_name(&h->link, e->hardlink, false);
	if (!name || (e->hardlink && !link))
		return sc_oom(err, "tar header");
	archive_entry_copy_pathname(ae, name);
	archive_entry_set_mode(ae, x->mode);
	archive_entry_set_uid(ae, x->uid);
	archive_entry_set_gid(ae, x->gid);
	archive_entry_set_mtime(ae, (time_t)x->mtime, (long)x->mtime_ns);
	if (link)
		archive_entry_copy_hardlink(ae, link);
	else if (S_ISLNK(x->mode))
		archive_entry_copy_symlink(ae, e->target);
	if (S_ISCHR(x->mode) || S_ISBLK(x->mode))
		archive_entry_set_rdev(ae, (dev_t)x->size);
	if (entry_is_reg(x) && !link)
		archive_entry_set_size(ae, (la_int64_t)x->size);
	if (is_sparse(e))
		set_sparse(ae, e);
	return set_xattrs(ae, e, err);
}

static uint64_t data_length(const struct tarhdr_entry *e)
{
	uint64_t n = 0;

	if (!entry_is_reg(e->e) || e->hardlink)
		return 0;
	if (!is_sparse(e))
		return e->e->size;
	for (uint32_t i = 0; i < e->nextents; i++)
		n += e->extents[i].len;
	return n;
}

static int write_header(struct tarhdr *h, struct buf *out, bool sparse,
			struct sc_err *err)
{
	int rc;

	h->to = NULL;
	if (archive_write_finish_entry(h->a) != ARCHIVE_OK)
		return sc_fail(err, SC_EIO, 0, "tar header: %s",
			       archive_error_string(h->a));
	h->to = out;
	rc = archive_write_header(h->a, h->entry);
	/* The map of a sparse file leaves with the first data. */
	if (rc == ARCHIVE_OK && sparse && archive_write_data(h->a, "", 0) != 0)
		rc = ARCHIVE_FATAL;
	h->to = NULL;
	if (rc == ARCHIVE_OK)
		return 0;
	h->fresh = true;
	return sc_fail(err, SC_EIO, 0, "tar header: %s",
		       archive_error_string(h->a));
}

int tarhdr_put(struct tarhdr *h, const struct tarhdr_entry *e, struct buf *out,
	       unsigned *pad, struct sc_err *err)
{
	size_t start = out->len;
	uint64_t data = data_length(e);

	if (h->fresh && writer_new(h, err) < 0)
		return -1;
	if (set_entry(h, e, err) < 0 ||
	    write_header(h, out, is_sparse(e), err) < 0)
		return -1;
	if (entry_is_reg(e->e) && e->e->size > FRESH_ABOVE)
		h->fresh = true;
	if (tarhdr_fix(&h->fix, e->e, data, out, start, err) < 0)
		return -1;
	*pad = (unsigned)(-data & (BLOCK - 1));
	if (out->failed)
		return sc_oom(err, "tar header");
	return 0;
}

void tarhdr_end(struct buf *out)
{
	buf_zero(out, (size_t)2 * BLOCK);
}
