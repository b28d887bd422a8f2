/* SPDX-License-Identifier: MIT */
/* Who depends on whom, from a compose file.
 *
 * Only a few fixed keys of each service are looked at, so nothing here
 * recurses but the merge key "<<" and extends, both bounded. The file may be
 * anybody's: every pair that is visited counts against one budget, which
 * ends aliases of aliases of aliases. */
#include <snapctl/stack/stack.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#define COMPOSE_FILE_MAX ((off_t)4 << 20)
#define COMPOSE_STEPS	 4000000u /* pairs and items visited in one file */
#define COMPOSE_DEPTH	 8	  /* of "<<" and extends */
#define COMPOSE_SERVICES 10000u
#define COMPOSE_NESTED	 500   /* brackets open at once */
#define COMPOSE_ANCHORS	 10000 /* and aliases */
#define COMPOSE_NAME_MAX 255u

struct reader {
	yaml_document_t *doc;
	size_t steps;
	bool too_much, oom;
};

/* One service while its dependencies are gathered. */
struct gather {
	struct compose_service *s;
	size_t n, cap, condition_cap;
};

void compose_free(struct compose_service *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		free(v[i].name);
		docker_strv_free(v[i].deps);
		free(v[i].conditions);
	}
	free(v);
}

static bool stop_here(struct reader *r)
{
	if (++r->steps > COMPOSE_STEPS)
		r->too_much = true;
	return r->too_much || r->oom;
}

static const char *scalar(const yaml_node_t *n)
{
	if (!n || n->type != YAML_SCALAR_NODE ||
	    n->data.scalar.length > COMPOSE_NAME_MAX ||
	    memchr(n->data.scalar.value, 0, n->data.scalar.length))
		return NULL;
	return (const char *)n->data.scalar.value;
}

static yaml_node_t *node_at(struct reader *r, int index)
{
	return yaml_document_get_node(r->doc, index);
}

static yaml_node_t *lookup(struct reader *r, yaml_node_t *map, const char *key,
			   int depth);

/* The value of a "<<" key: a mapping or a list of them. */
static yaml_node_t *lookup_merged(struct reader *r, yaml_node_t *from,
				  const char *key, int depth)
{
	yaml_node_t *found = NULL;

	if (from && from->type == YAML_MAPPING_NODE)
		return lookup(r, from, key, depth + 1);
	if (!from || from->type != YAML_SEQUENCE_NODE)
		return NULL;
	for (yaml_node_item_t *i = from->data.sequence.items.start;
	     !found && i < from->data.sequence.items.top; i++) {
		if (stop_here(r))
			return NULL;
		found = lookup(r, node_at(r, *i), key, depth + 1);
	}
	return found;
}

/* A key's value in a mapping, its own before merged ones. */
static yaml_node_t *lookup(struct reader *r, yaml_node_t *map, const char *key,
			   int depth)
{
	yaml_node_t *merged = NULL;

	if (!map || map->type != YAML_MAPPING_NODE || depth > COMPOSE_DEPTH)
		return NULL;
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		const char *k = scalar(node_at(r, p->key));

		if (stop_here(r))
			return NULL;
		if (k && strcmp(k, key) == 0)
			return node_at(r, p->value);
		if (k && strcmp(k, "<<") == 0)
			merged = node_at(r, p->value);
	}
	return lookup_merged(r, merged, key, depth);
}

/* The stronger condition wins when a service is named twice. */
static void add_dep(struct reader *r, struct gather *g, const char *name,
		    size_t len, enum stack_condition c)
{
	for (size_t i = 0; i < g->n; i++) {
		if (strncmp(g->s->deps[i], name, len) == 0 &&
		    g->s->deps[i][len] == 0) {
			if (c != DEP_STARTED)
				g->s->conditions[i] = c;
			return;
		}
		if (stop_here(r))
			return;
	}
	if (len == 0 || stop_here(r))
		return;
	if (mem_grow(&g->s->deps, &g->cap, g->n + 2, sizeof(char *)) < 0 ||
	    mem_grow(&g->s->conditions, &g->condition_cap, g->n + 1,
		     sizeof(c)) < 0) {
		r->oom = true;
		return;
	}
	g->s->deps[g->n + 1] = NULL;
	g->s->conditions[g->n] = c;
	g->s->deps[g->n] = strndup(name, len);
	if (!g->s->deps[g->n]) {
		r->oom = true;
		return;
	}
	g->n++;
}

static enum stack_condition condition_of(const char *s)
{
	if (s && strcmp(s, "service_healthy") == 0)
		return DEP_HEALTHY;
	if (s && strcmp(s, "service_completed_successfully") == 0)
		return DEP_COMPLETED;
	return DEP_STARTED;
}

/* depends_on as a mapping: service: {condition: …}. */
static void read_conditions(struct reader *r, struct gather *g,
			    yaml_node_t *map)
{
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top && !stop_here(r); p++) {
		const char *name = scalar(node_at(r, p->key));
		yaml_node_t *how = node_at(r, p->value);

		if (name && strcmp(name, "<<") == 0) {
			continue; /* read by the caller through lookup */
		} else if (name) {
			add_dep(r, g, name, strlen(name),
				condition_of(scalar(
					lookup(r, how, "condition", 0))));
		}
	}
}

/* A list of "service" or "service:rest". container:X names no service. */
static void read_list(struct reader *r, struct gather *g, yaml_node_t *list)
{
	for (yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top && !stop_here(r); i++) {
		const char *s = scalar(node_at(r, *i));

		if (s && strncmp(s, "container:", 10) != 0)
			add_dep(r, g, s, strcspn(s, ":"), DEP_STARTED);
	}
}

static void read_key(struct reader *r, struct gather *g, yaml_node_t *service,
		     const char *key)
{
	yaml_node_t *v = lookup(r, service, key, 0);

	if (v && v->type == YAML_SEQUENCE_NODE)
		read_list(r, g, v);
	for (int d = 0; v && v->type == YAML_MAPPING_NODE && d < COMPOSE_DEPTH;
	     d++) {
		read_conditions(r, g, v);
		v = lookup(r, v, "<<", COMPOSE_DEPTH);
	}
}

/* network_mode, pid, ipc: "service:X". */
static void read_mode(struct reader *r, struct gather *g, yaml_node_t *service,
		      const char *key)
{
	const char *s = scalar(lookup(r, service, key, 0));

	if (s && strncmp(s, "service:", 8) == 0)
		add_dep(r, g, s + 8, strlen(s + 8), DEP_STARTED);
}

static void read_service(struct reader *r, struct gather *g,
			 yaml_node_t *services, yaml_node_t *service, int depth)
{
	yaml_node_t *base = lookup(r, service, "extends", 0);

	read_key(r, g, service, "depends_on");
	read_key(r, g, service, "links");
	read_key(r, g, service, "volumes_from");
	read_mode(r, g, service, "network_mode");
	read_mode(r, g, service, "net");
	read_mode(r, g, service, "pid");
	read_mode(r, g, service, "ipc");
	/* What extends another file inherits no dependency from there. */
	if (base && base->type == YAML_MAPPING_NODE &&
	    !lookup(r, base, "file", 0))
		base = lookup(r, base, "service", 0);
	if (scalar(base) && depth < COMPOSE_DEPTH)
		read_service(r, g, services,
			     lookup(r, services, scalar(base), 0), depth + 1);
}

static int read_services(struct reader *r, yaml_node_t *services,
			 struct compose_service **v, size_t *n)
{
	size_t cap = 0;

	for (yaml_node_pair_t *p = services->data.mapping.pairs.start;
	     p < services->data.mapping.pairs.top && !stop_here(r); p++) {
		const char *name = scalar(node_at(r, p->key));
		struct gather g = { 0 };

		if (!name || strcmp(name, "<<") == 0)
			continue;
		if (*n >= COMPOSE_SERVICES) {
			r->too_much = true;
			break;
		}
		if (mem_grow(v, &cap, *n + 1, sizeof(**v)) < 0)
			return -1;
		(*v)[*n] = (struct compose_service){
			.name = strdup(name),
			.deps = calloc(1, sizeof(char *)),
		};
		g.s = &(*v)[(*n)++];
		g.cap = 1;
		if (!g.s->name || !g.s->deps)
			return -1;
		read_service(r, &g, services, node_at(r, p->value), 0);
	}
	return r->oom ? -1 : 0;
}

/* The mapping of services; version 1 files have them at the top. */
static yaml_node_t *services_of(struct reader *r)
{
	yaml_node_t *root = yaml_document_get_root_node(r->doc);
	yaml_node_t *s = lookup(r, root, "services", 0);

	if (s && s->type == YAML_MAPPING_NODE)
		return s;
	if (s || !root || root->type != YAML_MAPPING_NODE ||
	    lookup(r, root, "version", 0))
		return NULL;
	return root;
}

static int refuse(const char *path, struct sc_err *err)
{
	return sc_fail(err, SC_ECORRUPT, 0,
		       "%s is more than a compose file can sensibly be", path);
}

static int read_document(yaml_document_t *doc, const char *path,
			 struct compose_service **out, size_t *n,
			 struct sc_err *err)
{
	struct reader r = { .doc = doc };
	struct compose_service *v = NULL;
	yaml_node_t *services = services_of(&r);
	size_t count = 0;

	if (services && read_services(&r, services, &v, &count) < 0) {
		compose_free(v, count);
		return sc_oom(err, "compose file");
	}
	if (r.too_much) {
		compose_free(v, count);
		return refuse(path, err);
	}
	*out = v;
	*n = count;
	return 0;
}

/* libyaml's time grows with the square of open brackets and of anchors. A
 * rough count, which takes text in quotes for syntax, keeps it in bounds. */
static bool is_sane(const struct buf *text)
{
	int nested = 0, anchors = 0;

	for (size_t i = 0; i < text->len; i++) {
		unsigned char c = text->p[i];

		nested += c == '[' || c == '{';
		nested -= (c == ']' || c == '}') && nested > 0;
		anchors += c == '&' || c == '*';
		if (nested > COMPOSE_NESTED || anchors > COMPOSE_ANCHORS)
			return false;
	}
	return true;
}

static int parse(const struct buf *text, const char *path,
		 struct compose_service **out, size_t *n, struct sc_err *err)
{
	yaml_parser_t parser;
	yaml_document_t doc;
	int rc = -1;

	if (!is_sane(text))
		return refuse(path, err);
	if (!yaml_parser_initialize(&parser))
		return sc_oom(err, "YAML parser");
	yaml_parser_set_input_string(&parser, text->p, text->len);
	if (!yaml_parser_load(&parser, &doc)) {
		sc_fail(err, SC_ECORRUPT, 0, "%s, line %zu: %s", path,
			parser.problem_mark.line + 1,
			parser.problem ? parser.problem : "not YAML");
	} else {
		rc = read_document(&doc, path, out, n, err);
		yaml_document_delete(&doc);
	}
	yaml_parser_delete(&parser);
	return rc;
}

/* Non-blocking and regular only: the path comes from a label. */
static int read_file(const char *path, struct buf *out, struct sc_err *err)
{
	auto_close int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return sc_fail(err, errno == ENOENT ? SC_ENOTFOUND : SC_EIO,
			       errno, "open %s", path);
	if (fstat(fd, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat %s", path);
	if (!S_ISREG(st.st_mode))
		return sc_fail(err, SC_ECORRUPT, 0, "%s is not a file", path);
	if (st.st_size > COMPOSE_FILE_MAX)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is larger than a compose file can be", path);
	if (!buf_reserve(out, (size_t)st.st_size + 1))
		return sc_oom(err, path);
	got = io_read_some(fd, out->p, (size_t)st.st_size, path, err);
	if (got < 0)
		return -1;
	out->len = (size_t)got;
	return 0;
}

int compose_read(const char *path, struct compose_service **out, size_t *n,
		 struct sc_err *err)
{
	auto_buf struct buf text = { 0 };

	if (read_file(path, &text, err) < 0)
		return -1;
	return parse(&text, path, out, n, err);
}
