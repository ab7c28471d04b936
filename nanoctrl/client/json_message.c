/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the server in a session. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/json_document.h"
#include "nanoctrl/client/json_member.h"

static const struct {
	const char *name;
	enum nc_event_type type;
} event_names[] = {
	{ "registered", NC_EVENT_REGISTERED },
	{ "changed", NC_EVENT_CHANGED },
	{ "left", NC_EVENT_LEFT },
	{ "expired", NC_EVENT_EXPIRED },
	{ "region", NC_EVENT_REGION },
	{ "region_gone", NC_EVENT_REGION_GONE },
	{ "offer", NC_EVENT_OFFER },
	{ "offer_gone", NC_EVENT_OFFER_GONE },
	{ "wanted", NC_EVENT_WANTED },
};

static const struct {
	const char *name;
	enum nc_message_type type;
} message_names[] = {
	{ "hello", NC_MESSAGE_HELLO },		 { "beat", NC_MESSAGE_BEAT },
	{ "reset", NC_MESSAGE_RESET },		 { "resync", NC_MESSAGE_RESYNC },
	{ "superseded", NC_MESSAGE_SUPERSEDED }, { "goaway", NC_MESSAGE_GOAWAY },
	{ "error", NC_MESSAGE_ERROR },
};

static int read_event(const json_t *o, enum nc_event_type type, struct nc_message *out)
{
	bool offer = type == NC_EVENT_OFFER || type == NC_EVENT_OFFER_GONE;
	bool region = type == NC_EVENT_REGION || type == NC_EVENT_REGION_GONE;
	int ret = 0;

	out->type = NC_MESSAGE_EVENT;
	out->cursor = nc_text_of(o, "cursor", &ret);
	out->event = (struct nc_event){
		.type = type,
		.epoch = strtoull(out->cursor, NULL, 10),
		.generation = type == NC_EVENT_WANTED ? 0 : nc_number_of(o, "generation", &ret),
		.agent = nc_text_of(o, offer ? "from" : "agent", &ret),
		.incarnation = nc_text_or(o, "incarnation", ""),
		.region = region ? nc_text_of(o, "region", &ret) : "",
		.profile = offer ? nc_text_of(o, "profile", &ret) : "",
		.revision = nc_number_or(o, "revision", 0),
		.connection_epoch = nc_number_or(o, "connection_epoch", 0),
	};
	return ret;
}

/* 0 when it is not there. */
static uint32_t ms_or_none(const json_t *o, const char *key)
{
	int ret = 0;

	return nc_ms_of(o, key, &ret);
}

static int read_message(const json_t *o, enum nc_message_type type, struct nc_message *out)
{
	int ret = 0;

	out->type = type;
	switch (type) {
	case NC_MESSAGE_HELLO:
		out->beat_ms = nc_ms_of(o, "beat_ms", &ret);
		out->ttl_ms = ms_or_none(o, "ttl_ms");
		out->tick_ms = ms_or_none(o, "tick_ms");
		/* fall through */
	case NC_MESSAGE_RESET:
		out->cursor = nc_text_of(o, "cursor", &ret);
		break;
	case NC_MESSAGE_GOAWAY:
		out->reason = nc_text_of(o, "reason", &ret);
		/* fall through */
	case NC_MESSAGE_RESYNC:
		out->spread_ms =
			json_object_get(o, "spread_ms") ? nc_ms_of(o, "spread_ms", &ret) : 0;
		break;
	case NC_MESSAGE_ERROR:
		out->reason = nc_text_or(o, "message", "");
		break;
	default:
		break;
	}
	return ret;
}

static int read_object(const json_t *o, struct nc_message *out)
{
	int ret = 0;
	const char *type = nc_text_of(o, "type", &ret);

	*out = (struct nc_message){ .type = NC_MESSAGE_OTHER };
	if (ret)
		return ret;
	for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++)
		if (!strcmp(type, event_names[i].name))
			return read_event(o, event_names[i].type, out);
	for (size_t i = 0; i < sizeof(message_names) / sizeof(message_names[0]); i++)
		if (!strcmp(type, message_names[i].name))
			return read_message(o, message_names[i].type, out);
	return 0;
}

int nc_json_message(struct nc_json *json, struct nc_message *out)
{
	return read_object(json->root, out);
}

int nc_json_events(struct nc_json *json, struct nc_events *out)
{
	const json_t *array = json_object_get(json->root, "events"), *value;
	struct nc_event *list;
	int ret = 0;
	size_t i;

	*out = (struct nc_events){ .cursor = nc_text_of(json->root, "cursor", &ret),
				   .lost = json_is_true(json_object_get(json->root, "reset")) };
	if (ret || !json_is_array(array))
		return -EPROTO;
	list = nc_json_allocate(json, json_array_size(array), sizeof(*list));
	if (!list)
		return -ENOMEM;
	json_array_foreach(array, i, value)
	{
		struct nc_message message;

		if (read_object(value, &message))
			return -EPROTO;
		if (message.type == NC_MESSAGE_EVENT)
			list[out->n++] = message.event;
	}
	out->list = list;
	return 0;
}
