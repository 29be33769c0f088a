package layout

import "slices"

// Clusters are groups of nodes that lie together, for graphs with more nodes than can be shown one by one.
type Clusters struct {
	Of    []int32 // of a node: its cluster
	Graph         // the dependencies of clusters on each other, each once
	Layer []int32 // of a cluster
	Pos   []int32 // of a cluster within its layer
	Size  []int32 // of a cluster: how many nodes it has
}

// Clusters merges the nodes into at most so many clusters, two at least: neighbouring layers where there are too many of them,
// and within a layer nodes with neighbouring positions. A cluster depends on clusters of lower layers alone.
func (l *Layout) Clusters(most int) *Clusters {
	most = max(most, 2)
	bands := min(len(l.Width), max(1, most/2))
	c := &Clusters{Of: make([]int32, l.Len())}
	if bands == 0 {
		return c
	}
	per := (len(l.Width) + bands - 1) / bands
	bands = (len(l.Width) + per - 1) / per
	runs, first := make([]int32, bands), make([]int32, bands+1) // of a band: how many clusters it has at most, and the first of them
	for band := range bands {
		width := 0
		for _, w := range l.Width[band*per : min((band+1)*per, len(l.Width))] {
			width += int(w)
		}
		runs[band] = 1 + int32((width-1)*(most-bands)/l.Len())
		first[band+1] = first[band] + runs[band]
	}
	size := make([]int32, first[bands])
	for i, layer := range l.Layer {
		band := int(layer) / per
		c.Of[i] = first[band] + int32(int64(l.Pos[i])*int64(runs[band])/int64(l.Width[layer]))
		size[c.Of[i]]++
	}
	c.number(size, first)
	for i := range c.Of {
		c.Of[i] = size[c.Of[i]]
	}
	c.connect(l)
	return c
}

// number gives the clusters that have nodes consecutive numbers, and turns their sizes into these.
func (c *Clusters) number(size, first []int32) {
	n := int32(0)
	for band := range len(first) - 1 {
		pos := int32(0)
		for at := first[band]; at < first[band+1]; at++ {
			if size[at] == 0 {
				continue
			}
			c.Layer, c.Pos, c.Size = append(c.Layer, int32(band)), append(c.Pos, pos), append(c.Size, size[at])
			size[at] = n
			pos++
			n++
		}
	}
}

// connect finds the dependencies of the clusters.
func (c *Clusters) connect(l *Layout) {
	members := Graph{First: make([]int32, len(c.Size)+1), Edges: make([]int32, len(c.Of))}
	for k, n := range c.Size {
		members.First[k+1] = members.First[k] + n
	}
	next := slices.Clone(members.First)
	for i, k := range c.Of {
		members.Edges[next[k]] = int32(i)
		next[k]++
	}
	seen := make([]int32, len(c.Size)) // 1 + the cluster that has been found to depend on it last
	var deps []int32
	for k := range int32(len(c.Size)) {
		deps = deps[:0]
		for _, i := range members.Deps(k) {
			for _, dep := range l.Deps(i) {
				if !l.has(dep) {
					continue
				}
				if on := c.Of[dep]; c.Layer[on] < c.Layer[k] && seen[on] != k+1 {
					seen[on] = k + 1
					deps = append(deps, on)
				}
			}
		}
		slices.Sort(deps)
		c.Add(deps...)
	}
}
