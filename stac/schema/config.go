package schema

import (
	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Fields are the config keys by which a step says where its schemas come from; FromConfig reads them.
func Fields() []spec.Field {
	return []spec.Field{
		{Name: "schema_dir", Type: spec.String, Doc: "Folder of schemas, laid out as <host>/<path>, with an index.json {URI: path} if need be."},
		{Name: "schema_cache", Type: spec.String, Doc: "Folder in which schemas from the network are kept."},
		{Name: "mode", Type: spec.String, Enum: []string{string(Offline), string(Cached), string(Refresh)}, Doc: "Where schemas come from: offline (folder and cache), cache (then the network; the default), refresh (the cache is not read)."},
		{Name: "offline", Type: spec.Boolean, Doc: "Short for mode: offline."},
	}
}

// FromConfig reads a config that fits Fields. path resolves paths. Errors are CodeInvalid.
func FromConfig(config map[string]any, path func(string) string) (Options, error) {
	text := func(key string) string {
		v, _ := config[key].(string)
		return v
	}
	o := Options{Dir: path(text("schema_dir")), Cache: path(text("schema_cache")), Mode: Mode(text("mode"))}
	if offline, _ := config["offline"].(bool); offline {
		if o.Mode != "" && o.Mode != Offline {
			return o, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "offline: contradicts mode: " + text("mode"), Hint: "give one of the two"}
		}
		o.Mode = Offline
	}
	return o, nil
}
