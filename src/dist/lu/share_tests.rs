use super::pays;

#[test]
fn panels_are_shared_where_lanes_outnumber_the_columns() {
    assert!(pays(15, 16, 16, 0.2));
    // With 100 columns nobody waits for a panel.
    assert!(!pays(100, 16, 16, 0.0));
    // Two lanes wait for the last panels only.
    assert!(pays(1, 2, 2, 0.2) && pays(0, 2, 2, 0.2));
    assert!(!pays(3, 2, 2, 0.0));
}

#[test]
fn panels_are_not_shared_where_meetings_take_longer() {
    assert!(!pays(2, 16, 16, 2.0));
    assert!(pays(2, 16, 16, 1.5));
}

#[test]
fn one_lane_shares_nothing() {
    for columns in 0..20 {
        assert!(!pays(columns, 1, 1, 0.0));
        assert!(!pays(columns, 16, 1, 0.0), "nobody to share with");
    }
}
