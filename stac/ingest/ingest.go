// Package ingest holds the stream modules by which STAC items come in: stac.discovery finds collections,
// stac.ingest reads their items from APIs, static catalogs and files, stac.seed makes them of a list
// (specifications: stac-manager modules, stac-and-media §2, source-systems A.5). Both vocabularies of the
// source systems are understood; of two names for one setting only one may be given.
//
// A source that was cut off goes on at its last page, file or row. Item failures, pages and files that cannot
// be read are recorded, and the rest is read; a source of which nothing can be read fails. Stable.
package ingest

import (
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// Options are the dependencies of the modules.
type Options struct {
	// HTTP sends the requests to APIs.
	HTTP *outbound.Client
	// Places opens files.
	Places *files.Places
}

// Modules are stac.discovery, stac.ingest and stac.seed.
func Modules(o Options) []stream.Module {
	return []stream.Module{discoveryModule(o), ingestModule(o), seedModule(o)}
}
