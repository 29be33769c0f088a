package api

import (
	"context"

	"github.com/stepwell/stepwell/field"
)

// GetChanges selects changes of an execution's steps.
type GetChanges struct {
	ExecutionPath
	From        int    `query:"from" minimum:"0" maximum:"4194304" doc:"Number of the first change, from 0 on."`
	To          int    `query:"to" minimum:"0" maximum:"4194304" doc:"Number of the change behind the last one. Defaults to 65,536 behind from, which is the most; total in the header says how many there are."`
	IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
}

func (f *fields) changes(ctx context.Context, in *GetChanges) (*streamed, error) {
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, x.Version) {
		return nil, notModified(x.Version)
	}
	c, err := f.hub.Changes(ctx, x)
	if err != nil {
		return nil, err
	}
	if in.To == 0 {
		in.To = in.From + field.KeyframeOf
	}
	encode, packed := c.Encode, zips(ctx)
	if packed {
		encode = c.Packed
	}
	raw, err := encode(in.From, in.To)
	if err != nil {
		return nil, err
	}
	return asColumns(raw, packed, c.Version), nil
}
