package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/storage"
	"go.yaml.in/yaml/v3"
)

// A file of tests, as promtool takes them.
type file struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []group        `yaml:"tests"`
}

type group struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	AlertTests []alertTest `yaml:"alert_rule_test"`
}

type alertTest struct {
	EvalTime model.Duration `yaml:"eval_time"`
	Alert    string         `yaml:"alertname"`
	Expected []alert        `yaml:"exp_alerts"`
}

func testFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var tests file
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&tests); err != nil {
		return err
	}
	rules, err := alertingRules(filepath.Dir(path), tests.RuleFiles)
	if err != nil {
		return err
	}
	var wrong []error
	for _, each := range tests.Tests {
		if err := each.carryOut(rules, time.Duration(tests.EvaluationInterval)); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", each.Name, err))
		}
	}
	return errors.Join(wrong...)
}

func alertingRules(directory string, paths []string) (map[string][]rulefmt.Rule, error) {
	rules := map[string][]rulefmt.Rule{}
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(directory, path))
		if err != nil {
			return nil, err
		}
		groups, wrong := rulefmt.Parse(text, false, model.LegacyValidation, promQL, slog.Default())
		if len(wrong) > 0 {
			return nil, errors.Join(wrong...)
		}
		for _, each := range groups.Groups {
			for _, rule := range each.Rules {
				rules[rule.Alert] = append(rules[rule.Alert], rule)
			}
		}
	}
	return rules, nil
}

// carryOut evaluates each alert that the group tests, from the start to the last time.
func (g *group) carryOut(rules map[string][]rulefmt.Rule, every time.Duration) error {
	var series []storage.Series
	for _, each := range g.InputSeries {
		found, err := parsedSeries(each.Series, each.Values, time.Duration(g.Interval))
		if err != nil {
			return err
		}
		series = append(series, found)
	}
	query := queryOver(series)
	var wrong []error
	for _, test := range g.AlertTests {
		if len(rules[test.Alert]) == 0 {
			return fmt.Errorf("no alert is named %q", test.Alert)
		}
		var firing []alert
		for _, rule := range rules[test.Alert] {
			watched := watch{rule: rule}
			for at := time.Duration(0); at <= time.Duration(test.EvalTime); at += every {
				if err := watched.evaluate(query, time.Unix(0, 0).UTC().Add(at)); err != nil {
					return err
				}
			}
			firing = append(firing, watched.firing...)
		}
		if err := test.compare(firing); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

func (t *alertTest) compare(firing []alert) error {
	missing := append([]alert{}, t.Expected...)
	var unexpected []alert
	for _, each := range firing {
		delete(each.Labels, "alertname")
		place := -1
		for i, wanted := range missing {
			if same(each, wanted) {
				place = i
			}
		}
		if place < 0 {
			unexpected = append(unexpected, each)
		} else {
			missing = append(missing[:place], missing[place+1:]...)
		}
	}
	if len(missing) == 0 && len(unexpected) == 0 {
		return nil
	}
	return fmt.Errorf("%s at %s\nfires but should not:\n%snot but should:\n%s",
		t.Alert, t.EvalTime, written(unexpected), written(missing))
}

func same(one, other alert) bool {
	return reflect.DeepEqual(one, other)
}

func written(alerts []alert) string {
	text, err := yaml.Marshal(alerts)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
