package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
)

// Pages lists the objects under a path, page by page, at most so many. items is the list's name in the answer.
func (c *Client) Pages(ctx context.Context, path, items string, query url.Values, most int) ([]map[string]any, error) {
	all := []map[string]any{}
	for most > len(all) {
		query.Set("limit", strconv.Itoa(min(100, most-len(all))))
		rows, next, err := c.Page(ctx, path, items, query)
		if err != nil {
			return nil, err
		}
		if all = append(all, rows...); next == "" || len(rows) == 0 {
			break
		}
		query.Set("cursor", next)
	}
	return all, nil
}

// Page gets one page of a list, and the cursor of the next one; "": it is the last one.
func (c *Client) Page(ctx context.Context, path, items string, query url.Values) (rows []map[string]any, next string, err error) {
	var page map[string]json.RawMessage
	if err := c.Call(ctx, "GET", path, query, nil, &page); err != nil {
		return nil, "", err
	}
	rows = []map[string]any{}
	for name, into := range map[string]any{items: &rows, "next_cursor": &next} {
		if raw, given := page[name]; given && err == nil {
			err = json.Unmarshal(raw, into)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("the server's answer is not understood: %w", err)
	}
	return rows, next, nil
}
