// Package stac collects the stream modules for geospatial items (specification: stac-manager; docs/stac.md).
// Each has a package of its own below; their names and the configs of both vocabularies of stac-manager are
// promises to users.
package stac

import (
	"slices"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stac/extension"
	"github.com/stepwell/stepwell/stac/ingest"
	"github.com/stepwell/stepwell/stac/output"
	"github.com/stepwell/stepwell/stac/scaffold"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stac/transform"
	"github.com/stepwell/stepwell/stac/update"
	"github.com/stepwell/stepwell/stac/validate"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// Options are shared by the modules. All are required.
type Options struct {
	HTTP    *outbound.Client
	Places  *files.Places
	Schemas *schema.Store
}

// Modules are all of them.
func Modules(o Options) []stream.Module {
	return slices.Concat(
		ingest.Modules(ingest.Options{HTTP: o.HTTP, Places: o.Places}),
		transform.Modules(o.Places),
		scaffold.Modules(o.Places),
		extension.Modules(o.Schemas),
		validate.Modules(o.Schemas),
		update.Modules(o.Places),
		output.Modules(output.Options{HTTP: o.HTTP, Places: o.Places}),
	)
}
