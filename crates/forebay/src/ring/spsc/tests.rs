use super::*;

#[test]
fn elements_come_out_in_the_order_they_went_in() {
    let (mut producer, mut consumer) = ring::<u64>(3).unwrap();
    for round in 0..2000 {
        for i in 0..3 {
            producer.push(round * 3 + i).unwrap();
        }
        assert!(producer.push(0).is_err());
        for i in 0..3 {
            assert_eq!(consumer.pop(), Some(round * 3 + i));
        }
        assert_eq!(consumer.pop(), None);
    }
}
