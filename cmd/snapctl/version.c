/* SPDX-License-Identifier: MIT */
#include <archive.h>
#include <curl/curl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <unistd.h>
#include <yaml.h>
#include <zstd.h>

#include <snapctl/base/mem.h>
#include <snapctl/helper/frames.h>
#include <snapctl/scan/index.h>
#include <snapctl/ui/json.h>

#include "app.h"
#include "commands.h"

struct format {
	const char *name;
	unsigned version;
};

/* Those of the media types application/vnd.snapctl.NAME.vN, and what is
 * spoken with the helper. */
static const struct format formats[] = {
	{ "snapshot", 1 }, { "index", INDEX_VERSION },	{ "pack", 1 },
	{ "chunks", 1 },   { "frames", FRAME_VERSION },
};

struct library {
	const char *name, *version;
};

/* The versions it runs with, not those it was built with. */
static void libraries(struct library out[6], char archive[32])
{
	int v = archive_version_number();

	snprintf(archive, 32, "%d.%d.%d", v / 1000000, v / 1000 % 1000,
		 v % 1000);
	out[0] = (struct library){ "libarchive", archive };
	out[1] =
		(struct library){ "libcurl",
				  curl_version_info(CURLVERSION_NOW)->version };
	out[2] = (struct library){ "jansson", jansson_version_str() };
	out[3] = (struct library){ "libyaml", yaml_get_version_string() };
	out[4] = (struct library){ "openssl",
				   OpenSSL_version(OPENSSL_VERSION_STRING) };
	out[5] = (struct library){ "zstd", ZSTD_versionString() };
}

static int print_json(const struct library *lib, size_t n, struct sc_err *err)
{
	struct ui_json j = { 0 };
	json_t *o = ui_json_object(&j), *f = ui_json_object(&j);
	json_t *l = ui_json_object(&j);

	ui_json_str(&j, o, "version", SNAPCTL_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		ui_json_uint(&j, f, formats[i].name, formats[i].version);
	ui_json_set(&j, o, "formats", f);
	for (size_t i = 0; i < n; i++)
		ui_json_str(&j, l, lib[i].name, lib[i].version);
	ui_json_set(&j, o, "libraries", l);
	return ui_json_print(&j, o, STDOUT_FILENO, err);
}

static int print_text(const struct library *lib, size_t n, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };

	buf_printf(&b, "snapctl %s\n", SNAPCTL_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		buf_printf(&b, "format %s %u\n", formats[i].name,
			   formats[i].version);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "library %s %s\n", lib[i].name, lib[i].version);
	return app_print(&b, err);
}

int cmd_version(struct app *app, struct args *args)
{
	struct library lib[6];
	struct sc_err err = { 0 };
	char archive[32];
	int rc;

	(void)args;
	libraries(lib, archive);
	rc = app->json ? print_json(lib, ARRAY_LEN(lib), &err)
		       : print_text(lib, ARRAY_LEN(lib), &err);
	return rc < 0 ? app_fail(app, &err) : EXIT_DONE;
}
