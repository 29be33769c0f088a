package schema

import "github.com/stepwell/stepwell"

// Sources is the part of a step's config that says where its schemas come from, for modules to embed.
type Sources struct {
	Dir     string `json:"schema_dir" doc:"Folder of schemas, laid out as <host>/<path>, with an index.json {URI: path} if need be."`
	Cache   string `json:"schema_cache" doc:"Folder in which schemas from the network are kept."`
	Mode    Mode   `json:"mode" enum:"offline,cache,refresh" doc:"Where schemas come from: offline (folder and cache), cache (then the network; the default), refresh (the cache is not read)."`
	Offline bool   `json:"offline" doc:"Short for mode: offline."`
}

// Options are the options of the config; path resolves paths. Errors are CodeInvalid.
func (s Sources) Options(path func(string) string) (Options, error) {
	o := Options{Dir: path(s.Dir), Cache: path(s.Cache), Mode: s.Mode}
	if s.Offline {
		if o.Mode != "" && o.Mode != Offline {
			return o, stepwell.Invalid("give one of the two", "offline: contradicts mode: %s", s.Mode)
		}
		o.Mode = Offline
	}
	return o, nil
}
