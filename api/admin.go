package api

import (
	"context"
	"strconv"

	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// admin are the operations on the policy and the audit log.
func (s *server) admin() {
	handle(s, "policy.get", s.getPolicy)
	handle(s, "policy.set", s.setPolicy)
	handle(s, "audit.list", s.listAudit, listed[AuditEntry](s, "AuditList", "entries"))
}

// AuditList is a page of the audit log.
type AuditList = Page[AuditEntry]

// AuditEntry is one change and its author.
type AuditEntry struct {
	store.AuditEntry
	At Time `json:"at"`
}

// ListAudit selects entries of the audit log.
type ListAudit struct {
	store.AuditFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listAudit(ctx context.Context, in *ListAudit) (*answer[AuditList], error) {
	before, err := numberCursor("audit", in.Cursor)
	if err != nil {
		return nil, err
	}
	f := in.AuditFilter
	f.Before, f.Limit = before, in.Limit+1
	rows, err := s.o.Store.AuditEntries(ctx, f)
	if err != nil {
		return nil, err
	}
	rows, next := page(rows, in.Limit, func(e *store.AuditEntry) string { return strconv.FormatInt(e.No, 10) })
	out := AuditList{Items: make([]AuditEntry, len(rows)), Next: cursorTo("audit", next), name: "entries"}
	for i := range rows {
		out.Items[i] = AuditEntry{rows[i], resource.At(rows[i].At)}
	}
	return reply(out, nil)
}
