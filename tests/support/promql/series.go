package main

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

var engine = promql.NewEngine(promql.EngineOpts{
	MaxSamples: 10_000_000,
	Timeout:    time.Minute,
	Parser:     promQL,
	NoStepSubqueryIntervalFn: func(int64) int64 {
		return time.Minute.Milliseconds()
	},
})

// queryOver returns the instant queries over series in memory.
func queryOver(series []storage.Series) template.QueryFunc {
	stored := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &set{series: selected(series, matchers), at: -1}
		},
	}}
	return func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
		query, err := engine.NewInstantQuery(ctx, stored, nil, text, at)
		if err != nil {
			return nil, err
		}
		defer query.Close()
		result := query.Exec(ctx)
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Vector()
	}
}

// parsedSeries expands the notation of series, such as `0+10x5 _ stale`.
func parsedSeries(name, values string, interval time.Duration) (storage.Series, error) {
	found, sequence, err := promQL.ParseSeriesDesc(name + " " + values)
	if err != nil {
		return nil, err
	}
	var samples []chunks.Sample
	for i, each := range sequence {
		if !each.Omitted {
			samples = append(samples, sample{(time.Duration(i) * interval).Milliseconds(), each.Value})
		}
	}
	return storage.NewListSeries(found, samples), nil
}

func selected(series []storage.Series, matchers []*labels.Matcher) []storage.Series {
	var found []storage.Series
	for _, each := range series {
		matches := true
		for _, matcher := range matchers {
			matches = matches && matcher.Matches(each.Labels().Get(matcher.Name))
		}
		if matches {
			found = append(found, each)
		}
	}
	return found
}

type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
